"""Attributes of mentions by rules: negated, possible, hypothetical, historical, or about someone else.

The rules follow ConText (Harkema et al., 2009): a cue such as "denies" gives its attribute to the mentions in its scope, which goes
from the cue to the end of the sentence or to a word that ends it, such as "but". The words of each language are in
`data/context-LANGUAGE.toml`. In these lists

- `forward`, `backward` and `both` say on which side of the cue its scope is;
- `next` and `previous` are the same with a scope of a few words;
- `sections` are headings whose whole section has the attribute;
- `stop` ends the scope of an attribute, and the table `stop` that of every attribute;
- `list` has the words that join the items of a list, and the most words an item may have for a negation to reach it over a comma;
- `pseudo` holds phrases that look like a cue but are not ("no change").

A word of a phrase may have alternatives: "was|were ruled out". Case and accents are ignored. The longest phrase wins.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from itertools import pairwise, product
from typing import Any, NamedTuple

from osler.text.document import YES, Span
from osler.text.sentences import LANGUAGES, sentences
from osler.text.words import Range

ATTRIBUTES = ("negated", "possible", "hypothetical", "historical", "someone_else")
_DIRECTIONS = ("forward", "backward", "both", "next", "previous")
_TOKEN = re.compile(r"[^\W_]+|[^\w\s]")
_HEADING = re.compile(r"^[ \t]{0,20}([^\W\d_][^\n:]{1,60}?)(?::|$)", re.MULTILINE)
_NEAR = 3
"""Words between a mention and a cue of `next` or `previous`."""
_BREAKS = frozenset(",;()[]:")
_FAR = {"forward": 40, "backward": 9}
_ACCENTED = {"sí", "né"}  # yes and born; without their accent they are if and not


class _Cue(NamedTuple):
    attribute: str
    direction: str


@dataclass
class _Node:
    """One word of the phrases, with the words that may follow."""

    words: dict[str, _Node] = field(default_factory=dict)
    cues: tuple[_Cue, ...] = ()
    kind: str = ""
    """`cue`, `pseudo`, `list` or `stop` where a phrase ends."""
    stops: frozenset[str] = frozenset()
    """Attributes whose scope ends here."""


@dataclass(frozen=True)
class _Lexicon:
    """The words of one language."""

    root: _Node
    cue_words: frozenset[str]
    """The first words of cues."""
    sections: dict[str, str]
    joints: frozenset[str]
    """Words between the items of a list."""
    item: int
    """Words of an item that may follow a comma."""


class _Found(NamedTuple):
    """A phrase in a sentence, by its first token and the one after it."""

    first: int
    end: int
    node: _Node


def attributes(text: str, spans: Sequence[Span], language: str) -> list[dict[str, str]]:
    """The attributes of each mention, such as {"negated": "yes"}. Attributes that do not hold are left out.

    There are rules for en, es and fr; in any other language, mentions get no attributes.
    """
    found: list[dict[str, str]] = [{} for _ in spans]
    if not spans or language not in LANGUAGES:
        return found
    lexicon = _lexicon(language)
    borders = sentences(text, language)
    starts = [start for start, _ in borders]
    by_sentence: dict[int, list[int]] = {}
    for number, span in enumerate(spans):
        by_sentence.setdefault(max(0, bisect_right(starts, span.start) - 1), []).append(number)
    for place, members in by_sentence.items():
        scopes = list(_scopes(text, borders[place], lexicon)) if borders else []
        if not scopes:
            continue
        inside = _Members([(spans[number].start, spans[number].end, number) for number in members])
        for attribute, scope in scopes:
            for number in inside.reached(scope):
                found[number][attribute] = YES
    everything = _Members([(span.start, span.end, number) for number, span in enumerate(spans)])
    for attribute, section in _sections(text, lexicon):
        for number in everything.begun(section):
            found[number][attribute] = YES
    return [{name: YES for name in ATTRIBUTES if name in own} for own in found]


class _Members:
    """Mentions sorted by place, so that a scope finds its own by bisection."""

    def __init__(self, places: Sequence[tuple[int, int, int]]) -> None:
        self._starts = sorted((start, number) for start, _, number in places)
        self._ends = sorted((end, number) for _, end, number in places)

    def begun(self, scope: Range) -> set[int]:
        """Mentions that begin in a scope."""
        first, last = (bisect_left(self._starts, (edge, -1)) for edge in scope)
        return {number for _, number in self._starts[first:last]}

    def reached(self, scope: Range) -> set[int]:
        """Mentions that begin or end in a scope: a long one may contain the cue."""
        first, last = (bisect_left(self._ends, (edge + 1, -1)) for edge in scope)
        return self.begun(scope) | {number for _, number in self._ends[first:last]}


def _scopes(text: str, sentence: Range, lexicon: _Lexicon) -> Iterator[tuple[str, Range]]:
    """Attribute and characters of every scope in a sentence."""
    words = list(map(_folded, _TOKEN.findall(text, *sentence)))
    if lexicon.cue_words.isdisjoint(words):
        return  # most sentences
    phrases = list(_phrases(words, lexicon.root))
    if not any(phrase.node.cues for phrase in phrases):
        return
    places = [match.span() for match in _TOKEN.finditer(text, *sentence)]
    negated = 0  # the token after the last scope of a negation
    for number, (first, end, node) in enumerate(phrases):
        for attribute, direction in node.cues:
            if attribute == "possible" and first < negated:
                continue  # "no signs suggestive of": what is negated is not also possible
            scope = _Scope(words, phrases, attribute, direction, lexicon)
            # The later words of a negation are themselves negated: "evidence" in "no evidence of".
            inner = first + 1 if attribute == "negated" else end
            if direction in ("forward", "both", "next"):
                last = scope.forward(number)
                negated = last if attribute == "negated" else negated
                if last > inner:
                    yield attribute, (places[inner][0], places[last - 1][1])
            if direction in ("backward", "both", "previous"):
                start = scope.backward(number)
                if start < first:
                    yield attribute, (places[start][0], places[first - 1][1])
                if end > inner:
                    yield attribute, (places[inner][0], places[end - 1][1])


class _Scope(NamedTuple):
    """How far a cue reaches in a sentence."""

    words: Sequence[str]
    phrases: Sequence[_Found]
    attribute: str
    direction: str
    lexicon: _Lexicon

    def forward(self, number: int) -> int:
        """The token after the scope of a cue."""
        begin = self.phrases[number].end
        if self.direction == "next":
            return self._near(range(begin, min(len(self.words), begin + _NEAR)), begin - 1) + 1
        end = min(len(self.words), begin + _FAR["forward"])
        for place in range(number + 1, len(self.phrases)):
            phrase = self.phrases[place]
            if phrase.first >= end:
                break
            if self.attribute in phrase.node.stops or (self.attribute == "negated" and self._new_item(begin, phrase)):
                end = phrase.first
        return self._within_list(begin, end) if self.attribute == "negated" else end

    def _new_item(self, begin: int, phrase: _Found) -> bool:
        """Whether a phrase after a comma starts something possible: "no fever, possible pneumonia"."""
        possible = any(cue.attribute == "possible" for cue in phrase.node.cues)
        return possible and any(word == "," for word in self.words[begin : phrase.first])

    def _within_list(self, begin: int, end: int) -> int:
        """End of a scope that crosses a comma only to reach a short item: "no fever, cough or chills"."""
        joints = [place for place in range(begin, end) if self.words[place] in self.lexicon.joints]
        for joint, following in pairwise([*joints, end]):
            if self.words[joint] == "," and following - joint - 1 > self.lexicon.item:
                return joint
        return end

    def backward(self, number: int) -> int:
        """The first token of the scope of a cue."""
        end = self.phrases[number].first
        if self.direction == "previous":
            return self._near(range(end - 1, max(-1, end - 1 - _NEAR), -1), end)
        begin = max(0, end - _FAR["backward"])
        for place in range(number - 1, -1, -1):
            phrase = self.phrases[place]
            if phrase.end <= begin or self.attribute in phrase.node.stops:
                begin = max(begin, phrase.end)
                break
        # Cross a comma only in a list that ends with "and": "fever, cough and chills were denied".
        joined = False
        for place in range(end - 1, begin - 1, -1):
            joint = self.words[place]
            if joint == "," and not joined:
                return place + 1
            joined = joined or (joint in self.lexicon.joints and joint != ",")
        return begin

    def _near(self, places: range, last: int) -> int:
        """The last of these tokens before a comma or bracket."""
        for place in places:
            if self.words[place] in _BREAKS:
                break
            last = place
        return last


def _phrases(words: Sequence[str], root: _Node) -> Iterator[_Found]:
    """The phrases in a sentence, from left to right, the longest at each place."""
    first_words, after = root.words, 0
    for place, word in enumerate(words):
        if place < after or word not in first_words:
            continue
        node: _Node | None = first_words[word]
        end = place + 1
        best = None
        while node is not None:
            if node.kind:
                best, after = node, end
            node = node.words.get(words[end]) if end < len(words) else None
            end += 1
        if best is not None and _starts_clause(words, place, after, root):
            after = place + 1
        elif best is not None:
            yield _Found(place, after, best)


def _starts_clause(words: Sequence[str], place: int, end: int, root: _Node) -> bool:
    """Whether ": denies" or ": no" follows a heading, as in "Respiratory: denies cough", instead of an item, as in "Cough: no"."""
    if words[place] != ":" or end == len(words) or not words[end].isalnum():
        return False
    following = list(words[end : end + _NEAR + 1])
    if ":" in following and not _BREAKS.intersection(following[: following.index(":")]):
        return False  # "Fever: no Cough: yes"
    clause = next(_phrases(words[place + 1 : end + _NEAR], root), None)
    return clause is not None and clause.first == 0 and any(cue.direction == "forward" for cue in clause.node.cues)


def _sections(text: str, lexicon: _Lexicon) -> Iterator[tuple[str, Range]]:
    """Attribute and characters of the sections whose heading has one. A section ends at the next heading."""
    attribute, start = "", 0
    for match in _HEADING.finditer(text):
        heading = " ".join(_folded(word) for word in _TOKEN.findall(match[1]))
        known = lexicon.sections.get(heading, "")
        # A line without a colon is a heading if it is a known one or has several words in capitals.
        if not known and match.group()[-1:] != ":" and not (match[1].isupper() and " " in match[1].strip()):
            continue
        if attribute:
            yield attribute, (start, match.start())
        attribute, start = known, match.end()
    if attribute:
        yield attribute, (start, len(text))


@lru_cache(maxsize=1 << 16)
def _folded(word: str) -> str:
    """A word in lower case without accents."""
    word = word.lower()
    if word.isascii() or word in _ACCENTED:
        return word
    plain = "".join(letter for letter in unicodedata.normalize("NFD", word) if not unicodedata.combining(letter))
    return plain.replace("\u2019", "'").replace("œ", "oe")


@lru_cache
def _lexicon(language: str) -> _Lexicon:
    file = resources.files("osler.text").joinpath(f"data/context-{language}.toml")
    tables: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    root = _Node()
    sections: dict[str, str] = {}
    for attribute in ATTRIBUTES:
        table = tables.get(attribute, {})
        for direction in _DIRECTIONS:
            for node in _nodes(root, table.get(direction, ())):
                node.kind = "cue"
                node.cues = (*node.cues, _Cue(attribute, direction))
        for node in _nodes(root, table.get("stop", ())):
            node.kind, node.stops = node.kind or "stop", node.stops | {attribute}
        for heading in table.get("sections", ()):
            sections |= {" ".join(words): attribute for words in _expanded(heading)}
    for node in _nodes(root, tables["stop"]["phrases"]):
        node.kind, node.stops = node.kind or "stop", frozenset(ATTRIBUTES)
    for node in _nodes(root, tables["pseudo"]["phrases"]):
        node.kind, node.cues = "pseudo", ()
    joints = frozenset((",", *map(_folded, tables["list"]["joints"])))
    cue_words = frozenset(word for word, node in root.words.items() if _begins_cue(node))
    return _Lexicon(root, cue_words, sections, joints, tables["list"]["item"])


def _begins_cue(node: _Node) -> bool:
    return bool(node.cues) or any(map(_begins_cue, node.words.values()))


def _nodes(root: _Node, phrases: Sequence[str]) -> Iterator[_Node]:
    """Yield the node at the end of each phrase, creating missing nodes."""
    for phrase in phrases:
        for words in _expanded(phrase):
            node = root
            for word in words:
                node = node.words.setdefault(word, _Node())
            yield node


def _expanded(phrase: str) -> Iterator[tuple[str, ...]]:
    """All word sequences that a phrase stands for."""
    places = [
        [tuple(_folded(word) for word in _TOKEN.findall(choice)) for choice in place.split("|")]
        for place in phrase.split()
    ]
    for chosen in product(*places):
        yield tuple(word for words in chosen for word in words)
