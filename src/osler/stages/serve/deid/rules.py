"""Rules that find PHI without a model: identifiers, contacts, dates, ages, addresses, and names with a title, a label or a given name.

The patterns are data (`data/common.toml` and one file per language). They do not find names in running text without a title, a
label, a relative or a frequent given name before them, or places that are in no list and have no place word.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from osler.stages.serve.deid.checksums import CHECKS
from osler.stages.serve.deid.kinds import DATA, PhiFinding

LANGUAGES = ("en", "es", "fr")
"""Languages with rules of their own."""
_PLACEHOLDER = re.compile(r"@(\w+)@")
_WORD = re.compile(r"[^\W\d_]+(?:['’´-][^\W\d_]+)*")
_LINE_END = " \t.,;:-"
_BLOCK_END = re.compile(r"\n[ \t]*\n")
_BLOCK_PIECE = re.compile(r"\d[\d./ºª-]*(?:[ ]?[A-Z]\b)?|s/n")
# Shorter words are initials and abbreviations, which are too often something else.
_SHORTEST_NAME = 4
_ARTICLES = frozenset(("el", "al", "la", "le", "los", "las", "les", "des"))


@dataclass(frozen=True)
class PhiRule:
    """One pattern. Its named groups are the findings."""

    name: str
    pattern: re.Pattern[str]
    check: Callable[[str], bool] | None
    block: bool
    eponyms: bool
    """Whether names that are also eponyms count: yes in "Dr. Bell", no for the same word in running text."""

    def find(self, text: str) -> Iterator[PhiFinding]:
        match = self.pattern.search(text)
        while match is not None:
            after = max(match.end(), match.start() + 1)
            for group, value in match.groupdict().items():
                if value is None or (self.check is not None and not self.check(value)):
                    continue
                kind = group.rstrip("0123456789")
                start, end = match.span(group)
                if self.block:
                    yield from _in_block(text, start, end)
                    continue
                for finding in self._trimmed(text, start, end, kind):
                    yield finding
                    if kind == "NAME" and finding.end < end:
                        after = min(after, finding.end)  # "Mme Roux Docteur Le Bris": what was trimmed may begin a name
            match = self.pattern.search(text, after)

    def _trimmed(self, text: str, start: int, end: int, kind: str) -> Iterator[PhiFinding]:
        """Trim spaces and punctuation from a finding, and from a name also words that cannot be part of one."""
        while start < end and (text[start].isspace() or text[start] in ".,;:"):
            start += 1
        while end > start and (text[end - 1].isspace() or text[end - 1] in _LINE_END):
            if text[end - 1] == "." and kind == "NAME" and end - start > 2 and text[end - 3] in " \n":
                break  # the full stop belongs to an initial
            end -= 1
        if kind == "NAME":
            start, end = _name_in(text, start, end, eponyms=self.eponyms)
        if start < end:
            yield PhiFinding(start, end, kind)


class PhiRules:
    """The common rules, and those of some languages."""

    def __init__(self, languages: Sequence[str]) -> None:
        self.languages = tuple(language for language in languages if language in LANGUAGES)
        files = [_read("common")] + [_read(language) for language in self.languages]
        self._rules = [rule for number in range(len(files)) for rule in _compile(files, number, self.languages)]

    def find(self, text: str) -> list[PhiFinding]:
        """Everything the rules find; passages may overlap."""
        return [finding for rule in self._rules for finding in rule.find(text)]


@cache
def rules_for(languages: tuple[str, ...]) -> PhiRules:
    """The rules of some languages, compiled once."""
    return PhiRules(languages)


def repeated_names(text: str, findings: Iterable[PhiFinding]) -> list[PhiFinding]:
    """Find other capitalised occurrences of the words of found names: a surname alone, a name in a heading."""
    places = [finding for finding in findings if finding.kind == "NAME"]
    words = {word for finding in places for word in _WORD.findall(text[finding.start : finding.end])}
    words |= {part for word in words for part in re.split("[-’'´]", word)}  # either half of a double name
    words = {word for word in words if len(word) >= _SHORTEST_NAME and word[0].isupper()} - _stop() - _eponyms()
    if not words:
        return []
    forms = sorted({form for word in words for form in (word, word.upper(), word.capitalize())}, key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, forms))})(?![\w-])")
    return [PhiFinding(*match.span(), "NAME") for match in pattern.finditer(text)]


def rules_digest() -> str:
    """Hash of the rules, lists and label maps. Another version of them has other findings."""
    files = sorted((item.name, item.read_bytes()) for item in DATA.iterdir())
    return hashlib.sha256(b"\0".join(content for _, content in files)).hexdigest()


@cache
def given_names(language: str) -> Mapping[str, str]:
    """Frequent given names of a language, in lower case, with their gender, `male` or `female`."""
    table = _read("names")[language]
    return {name.lower(): gender for gender in ("female", "male") for name in table[gender].split()}


def _name_in(text: str, start: int, end: int, *, eponyms: bool) -> tuple[int, int]:
    """Trim a passage to its first run of words that can be part of a name. Empty if nothing is left."""
    words = [match.span() for match in _WORD.finditer(text, start, end)]

    def stops(index: int) -> bool:
        word = text[slice(*words[index])]
        # El Amrani and Le Goff are names; El paciente is not.
        follows = words[index + 1] if index + 1 < len(words) else None
        article = word.lower() in _ARTICLES and follows is not None and text[follows[0]].isupper()
        return word in _stop() and not (article and text[slice(*follows or (0, 0))] not in _stop())

    first = next((index for index in range(len(words)) if not stops(index)), len(words))
    last = next((index for index in range(first, len(words)) if stops(index)), len(words))
    kept = words[first:last]
    while kept and text[slice(*kept[-1])].islower():
        kept.pop()  # a trailing particle
    if not kept or (not eponyms and all(text[slice(*place)] in _eponyms() for place in kept)):
        return start, start
    stop = kept[-1][1]
    initial = stop - kept[-1][0] == 1 and text[stop : min(stop + 1, end)] == "."
    return kept[0][0], stop + initial


def _in_block(text: str, start: int, end: int) -> Iterator[PhiFinding]:
    """Find every capitalised word and number in the contact details of a letter that is not known to be something else."""
    stop = _BLOCK_END.search(text, start, end)
    end = stop.start() if stop else end
    for match in _WORD.finditer(text, start, end):
        word = match.group()
        if word[0].isupper() and word not in _stop() and not word.lower().endswith(("logía", "iatría", "ología")):
            yield PhiFinding(*match.span(), "LOCATION")
    for match in _BLOCK_PIECE.finditer(text, start, end):
        yield PhiFinding(*match.span(), "LOCATION")


def _compile(files: Sequence[Mapping[str, Any]], number: int, languages: Sequence[str]) -> Iterator[PhiRule]:
    """Compile the rules of one file. Its fragments and lists override the common ones."""
    parts = {"U": _letters(str.isupper), "L": _letters(str.islower)}
    for file in (files[0], files[number]):
        parts |= file.get("fragments", {})
        parts |= {name: _alternatives(words) for name, words in file.get("lists", {}).items()}
    if number:
        names = list(given_names(languages[number - 1]))
        written = [name.title() for name in names]
        parts |= {"given": _alternatives(written), "GIVEN": _alternatives([name.upper() for name in names])}

    def fill(pattern: str) -> str:
        while _PLACEHOLDER.search(pattern):
            pattern = _PLACEHOLDER.sub(lambda match: part(match[1]), pattern)
        return pattern

    def part(name: str) -> str:
        return parts[name] if parts[name].startswith("[") and name in "UL" else f"(?:{parts[name]})"

    for rule in files[number].get("rules", ()):
        check = CHECKS[rule["check"]] if "check" in rule else None
        pattern = re.compile(fill(rule["pattern"]), re.MULTILINE)
        yield PhiRule(rule["name"], pattern, check, rule.get("block", False), rule.get("eponyms", True))


@cache
def _letters(wanted: Callable[[str], bool]) -> str:
    """Character class of all upper-case or lower-case Latin letters, including accented ones: names come from anywhere."""
    codes = (*range(0x41, 0x250), *range(0x1E00, 0x1F00))
    return "[" + "".join(letter for letter in map(chr, codes) if letter.isalpha() and wanted(letter)) + "]"


def _alternatives(words: Iterable[str]) -> str:
    """Pattern for any of the words, longest first. A space matches any white space."""
    longest = sorted(set(words), key=lambda word: (-len(word), word))
    return "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in longest)


@cache
def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(DATA.joinpath(f"{name}.toml").read_text("utf-8"))


@cache
def _stop() -> frozenset[str]:
    words = _read("names")["words"]["stop"].split()
    return frozenset([*words, *(word.upper() for word in words if len(word) > 3)])


@cache
def _eponyms() -> frozenset[str]:
    return frozenset(_read("names")["words"]["eponym"].split())
