"""Split English, Spanish and French clinical text into sentences, exact to the character.

A sentence can end only at a full stop, question mark, exclamation mark or line break. Whether it does depends on the words
around that place, which `data/abbreviations-*.txt` lists. The text is never changed: sentences are ranges of it with only
whitespace between them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from itertools import product

from osler.core.errors import UnknownNameError, nearest
from osler.text.words import Range

LANGUAGES = ("en", "es", "fr")

_UPPER = "A-ZÀ-ÖØ-ÞŒ"
_LOWER = "a-zß-öø-ÿœ"
# A stop with closing marks and a citation after it, then whitespace, the end, or a capital where the space was forgotten;
# or a line break. The pattern begins with a plain set of characters because `re` then skips to them quickly. Most stops are
# `plain`: two small letters or no word before them, one space or line break and a capital after them.
_PLACE = re.compile(
    r"[.!?…\n\r]"
    rf"(?P<plain>(?:(?<=[{_LOWER}]{{2}}[.!?])|(?<=[ )][.!?]))(?=[ \n][{_UPPER}]))?"
    r"(?:(?<=[\n\r])\s*"
    r"|(?<![\n\r])(?<![.!?…]{2})[.!?…]*+"
    r"(?P<close>[\"'”\u2019)\]»]*(?:[ \xa0\u202f]»)?"
    rf"(?P<cited>\[\d[\d,;\u2013-]*\]|\d{{1,3}}(?:[,\u2013-]\d{{1,3}})*(?=\s+[{_UPPER}]))?)"
    rf"(?P<gap>\s+|\Z|(?=[{_UPPER}][^\W\d_]*[\s,:])))"
)
_BEFORE_TOKEN = re.compile(r"(?:.*[\s()\[\]{}«»\"“”'\u2018\u2019/<>=,;:])?", re.DOTALL)
_TOKEN_LENGTH = 24
_WORD = re.compile(r"[^\W\d_]+")
_OPENERS = "\"'“\u2018«¿¡([{*•·-\u2013—\xa0 "
_NO_OPENERS = ",;:)]}%=<>/+&.!?"
_DOTTED = re.compile(r"(?:[^\W\d_]{1,3}\.)+-?[^\W\d_]{1,3}")
_ITEM_MARK = re.compile(r"\d{1,2}|[A-Za-z]|[IVXivx]{1,5}")
_BULLET = re.compile(r"[-\u2013—*•·▪●○◦➢➤✓✔►■□◆\x95\x96\x97](?!\d)")
_ITEM = re.compile(rf"\(?(?:\d{{1,2}}(?:\.\d{{1,2}})*|[A-Za-z]|[IVXivx]{{1,5}})(?:[.)]-?|:|-(?=\s))(?=\s|[{_UPPER}])")
_HEADING = re.compile(rf"[{_UPPER}][^\n\r:.]{{1,60}}:(?P<alone>[^\S\n\r]*[\n\r])?")
_UNFINISHED = ",-\u2013(/[{+&"
_LOWER_LINE = re.compile(rf"\n[{_LOWER}]")
_NARROWEST_WRAP, _WIDEST_WRAP, _RAGGED = 45, 130, 15
_FIRST_WORD = re.compile(r"\S{1,40}")
_AFTER_STOP = re.compile(r"[.!?]\s+([^\W\d_])")


@dataclass(frozen=True)
class SentenceWords:
    """Words of one language that decide about the full stop or the line end after them."""

    never: frozenset[str]
    number: frozenset[str]
    may: frozenset[str]
    kinds: frozenset[str]
    starters: frozenset[str]
    goes_on: frozenset[str]

    @cached_property
    def unsure(self) -> frozenset[str]:
        """All words, in lower case, whose full stop may not end a sentence: abbreviations, and marks of lists like viii."""
        marks = ("".join(letters) for length in range(2, 6) for letters in product("ivx", repeat=length))
        return frozenset([*marks, *(word.lower() for word in self.never | self.number | self.may)])


@lru_cache
def sentence_words(language: str) -> SentenceWords:
    """The words of a language that decide where its sentences end."""
    if language not in LANGUAGES:
        guess = nearest(language, LANGUAGES)
        raise UnknownNameError(
            f"sentence splitting is not supported for language {language!r}",
            fix=f"Use {guess}" if guess else f"Use one of {', '.join(LANGUAGES)}",
        )
    text = resources.files("osler.text").joinpath(f"data/abbreviations-{language}.txt").read_text(encoding="utf-8")
    sections: dict[str, set[str]] = {}
    current: set[str] = set()
    for line in text.splitlines():
        if line.startswith("["):
            current = sections.setdefault(line.strip("[] "), set())
        elif not line.startswith("#"):
            current.update(line.split())
    names = ("never ends a sentence", "before a number", "may end a sentence", "letter follows")
    return SentenceWords(*(frozenset(sections[name]) for name in (*names, "starts a sentence", "goes on")))


def sentences(text: str, language: str = "en") -> list[Range]:
    """Half-open character range of every sentence."""
    return SentenceSplitter(text, sentence_words(language)).split()


class SentenceSplitter:
    """Splits one text, from left to right."""

    def __init__(self, text: str, vocabulary: SentenceWords) -> None:
        self.text = text
        self.words = vocabulary
        self.start = len(text) - len(text.lstrip())  # of the current sentence
        self.line = self.start  # start of the current line
        self.item = 0  # number of the last list item in this line

    def split(self) -> list[Range]:
        text, unsure = self.text, self.words.unsure
        length = len(text.rstrip())
        found: list[Range] = []
        for match in _PLACE.finditer(text, self.start, length):
            end = match.end("plain")
            if end > 0:
                low = end - _TOKEN_LENGTH
                word = text[low if low > self.start else self.start : end - 1].rpartition(" ")[2]
                if not word or word[-1] == ")" or (word.isalpha() and word.lower() not in unsure):
                    # A shortcut: the checks below would decide the same.
                    found.append((self.start, end))
                    self.start = end + 1
                    if text[end] == "\n":
                        self.line, self.item = end + 1, 0
                    continue
            if match.end() >= length:
                break
            gap = match["gap"]
            if gap is None:
                border = self._at_line_end(match)
            elif "\n" in gap or "\r" in gap:
                border = self._at_stop_and_line_end(match)
            else:
                border = self._at_stop(match)
            if gap is None or "\n" in gap or "\r" in gap:
                self.line, self.item = match.end(), 0
            if border is not None:
                found.append((self.start, border[0]))
                self.start = border[1]
        if self.start < length:
            found.append((self.start, length))
        return found

    def _at_stop(self, match: re.Match[str]) -> Range | None:
        """Border at a stop within a line: end of the sentence and start of the next."""
        text = self.text
        stop, end, following = match.start(), match.end("close"), match.end()
        border = (end, following)
        token = self._token(stop)
        begin = stop - len(token)
        if item := self._at_item(token, begin):
            return item if item[0] < item[1] else None
        first = text[following]
        inner = following
        while text[inner] in _OPENERS and inner < len(text) - 1:
            inner += 1
        if first in _NO_OPENERS or text[inner].isspace():
            return None
        kind = self._kind(token, inner)
        plain = kind == "" and (len(token) > 3 or not token.isalpha())
        if (match["cited"] or match["gap"] == "") and not (token == "" or (token.islower() and plain)):
            return None
        if text[inner].islower():
            return border if plain and (self.lower_case or first in "([") else None
        if match.start("close") - stop > 1 or text[stop] != ".":
            return border
        if kind == "letter":
            return border if self._letter_ends(begin, inner) else None
        if kind == "never" or (kind and (first in "([" or ")" in match["close"])):
            return None
        if text[inner].isdigit():
            return border if plain else None
        return border

    def _at_item(self, token: str, begin: int) -> Range | None:
        """Handle `1.` of a list item: an empty range if it opens the sentence, else the border before it."""
        if begin == self.start:
            if not _ITEM_MARK.fullmatch(token):
                return None
            self.item = int(token) if token.isdecimal() else 0
            return begin, begin
        if not token.isdecimal() or len(token) > 2 or not self.text[begin - 1].isspace():
            return None
        end = begin
        while self.text[end - 1].isspace():
            end -= 1
        if token == "1" and self.text[end - 1] == ":":
            self.item = 1
            return begin, begin
        if not self.item or int(token) != self.item + 1:
            return None
        before = self._token(end).lower()
        if before in self.words.kinds or before in self.words.goes_on:  # the number belongs to the word: type 2.
            return None
        self.item += 1
        return end, begin

    def _at_line_end(self, match: re.Match[str]) -> Range | None:
        """Border at a line break without a stop before it."""
        text, following = self.text, match.end()
        end = match.start()
        while text[end - 1].isspace():
            end -= 1
        border = (end, following)
        if _line_breaks(match.group()) > 1 or _BULLET.match(text, following):
            return border
        lower = text[following].islower()
        short = end - self.line < _NARROWEST_WRAP
        if text[end - 1] == ":":
            return border if short or not lower else None
        if text[end - 1] in _UNFINISHED or self._token(end).lower() in self.words.goes_on:
            return None
        heading = _HEADING.match(text, following)
        if _ITEM.match(text, following) or (heading and (heading["alone"] or heading.group().isupper())):
            return border
        return border if self._is_deliberate(end, following) and (short or not lower) else None

    def _at_stop_and_line_end(self, match: re.Match[str]) -> Range | None:
        text, end, following = self.text, match.end("close"), match.end()
        border = (end, following)
        if _line_breaks(match["gap"]) > 1 or _BULLET.match(text, following) or _ITEM.match(text, following):
            return border
        if not self._is_deliberate(end, following):
            return self._at_stop(match)
        token = self._token(match.start())
        if match.start() - len(token) == self.start and _ITEM_MARK.fullmatch(token):
            return None
        kind = self._kind(token, following)
        whole = (kind == "" and len(token) > 3) or end - self.line < _NARROWEST_WRAP
        return None if kind == "never" or (text[following].islower() and not whole) else border

    def _token(self, end: int) -> str:
        """Characters up to `end` without whitespace or brackets, at most _TOKEN_LENGTH."""
        before = _BEFORE_TOKEN.match(self.text, max(self.start, end - _TOKEN_LENGTH), end)
        return self.text[before.end() : end] if before else ""

    def _kind(self, token: str, following: int) -> str:
        """Kind of abbreviation: `never`, `number`, `may` (end a sentence) or `letter`; "" if it is not one."""
        if not token:
            return ""
        words, lower = self.words, token.lower()
        if token in words.never:
            return "never"
        if token.isupper():
            if len(token) == 1:
                return "letter"
            # Titles in capitals are acronyms (ED, MS, AV), unless the name after them is in capitals too.
            word = _WORD.match(self.text, following)
            if "." not in token and not (word and len(word[0]) > 1 and word[0].isupper()):
                return ""
        if lower in words.never:
            return "never"
        if lower in words.number:
            return "number" if self.text[following].isdigit() else ""
        if lower in words.may:
            return "may"
        if _DOTTED.fullmatch(token):
            return "letter" if token[0].isupper() else "may"
        return ""

    def _letter_ends(self, begin: int, following: int) -> bool:
        """Whether a capital with a stop ends the sentence (type B.) or is the initial of a name (J. Smith)."""
        text = self.text
        end = begin
        while end > self.start and text[end - 1].isspace():
            end -= 1
        before = self._token(end).lower()
        if before in self.words.kinds or (end > self.start and (text[end - 1].isdigit() or text[end - 1] in "/°º")):
            return True
        word = _WORD.match(text, following)
        return word is not None and word[0].lower() in self.words.starters

    def _is_deliberate(self, end: int, following: int) -> bool:
        """Whether a line break is more than wrapping: lines are not wrapped, or the next word would have fitted."""
        width = self.wrap_width
        length = end - self.line
        if not width or length > width + _RAGGED:
            return True
        word = _FIRST_WORD.match(self.text, following)
        return length + 1 + (len(word[0]) if word else 0) <= width

    @cached_property
    def wrap_width(self) -> int:
        """Width that lines are wrapped to: the longest line continued in lower case; 0 if there is none."""
        width = 0
        for match in _LOWER_LINE.finditer(self.text):
            line = self.text[self.text.rfind("\n", 0, match.start()) + 1 : match.start()].rstrip()
            if width < len(line) <= _WIDEST_WRAP and line[-1] not in ".:;!?":
                width = len(line)
        return width if width >= _NARROWEST_WRAP else 0

    @cached_property
    def lower_case(self) -> bool:
        """Whether sentences of this text mostly begin in lower case."""
        first = [match.group(1) for match in _AFTER_STOP.finditer(self.text)]
        return 2 * len([letter for letter in first if letter.islower()]) > len(first)


def _line_breaks(gap: str) -> int:
    return gap.count("\n") or gap.count("\r")
