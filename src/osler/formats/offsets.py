"""Detect what the offsets of stand-off files count when it is not the characters of the text.

Offsets are written by other programs. On Windows, line ends may have become CR LF after the mentions were marked. Java and
JavaScript count UTF-16 code units, some programs count bytes, and a byte-order mark may be counted or not. Each of these shifts
every mention after some point, so that mentions of a whole corpus are off, not just a few.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np

from osler.core.errors import InputError, RecipeError, alternatives
from osler.text.document import Fragment

CONVENTIONS: Mapping[str, str] = {
    "lf": "a line end counts as one character, and the texts have CR LF",
    "crlf": "a line end counts as two characters, and the texts have LF",
    "bom": "they are one too large: a byte-order mark was counted, or counting began at 1",
    "no-bom": "they do not count the byte-order mark that the texts begin with",
    "utf-16": "they count UTF-16 code units, as Java and JavaScript do",
    "bytes": "they count bytes of UTF-8",
}
"""Values of the option `offsets` of a stand-off format, and what they mean."""
UNCHECKED = "unchecked"
"""Value of `offsets` that reads a corpus as is, however many mentions are off."""

_EXCLUSIVE = (("lf", "crlf"), ("bom", "no-bom"), ("utf-16", "bytes"))
_COMBINATIONS = sorted(
    (tuple(name for name in names if name) for names in product(*(("", *pair) for pair in _EXCLUSIVE))), key=len
)[1:]
_BOM = "\ufeff"
# If a larger share of mentions does not fit, the offsets themselves are wrong. Public corpora have less than 0.5 %.
_OFF = 0.05
# Fewer misfits count as defects of a small corpus. If one convention explains all of them, two are enough.
_SOME = 5
# Without the mentions' own text, the only evidence is words that are cut. Some corpora mark parts of words, so this takes more
# misfits, and a convention that explains them.
_SOME_CUT = 20


def check_conventions(names: Iterable[str]) -> None:
    """Raise RecipeError for invalid values of the option `offsets`."""
    names = list(names)
    known = (*CONVENTIONS, UNCHECKED)
    for name in names:
        if name not in known:
            raise RecipeError(f"the option 'offsets' cannot be {name!r}", fix=alternatives(name, known))
    for pair in _EXCLUSIVE:
        if set(pair) <= set(names):
            raise RecipeError(f"the option 'offsets' cannot be both {' and '.join(pair)}", fix="Remove one of them")


def too_many(off: int, mentions: int, least: int = _SOME) -> bool:
    """Whether so many mentions do not fit that the offsets must be wrong as a whole."""
    return off >= least and off > _OFF * mentions


class Counting:
    """Maps offsets counted in some convention to the characters of a text."""

    def __init__(self, text: str, conventions: Iterable[str]) -> None:
        wanted = set(conventions)
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        widths = np.ones(len(codes), dtype=np.int64)
        if "utf-16" in wanted:
            widths += codes > 0xFFFF
        if "bytes" in wanted:
            widths += (codes > 0x7F).astype(np.int64) + (codes > 0x7FF) + (codes > 0xFFFF)
        line_end, after_return = codes == ord("\n"), np.roll(codes == ord("\r"), 1)
        after_return[:1] = False  # nothing precedes the first character
        if "lf" in wanted:
            widths[np.flatnonzero(line_end & after_return) - 1] = 0
        if "crlf" in wanted:
            widths[line_end & ~after_return] = 2
        if "no-bom" in wanted and text.startswith(_BOM):
            widths[0] = 0
        first = (3 if "bytes" in wanted else 1) if "bom" in wanted else 0
        self._starts = [first, *(first + np.cumsum(widths)).tolist()]

    def fragment(self, start: int, end: int) -> Fragment:
        """Map a pair of offsets to characters. An offset outside the text stays outside."""
        inside = bisect_right(self._starts, start) - 1 if start >= self._starts[0] else -1
        return inside, bisect_left(self._starts, end)


@dataclass(frozen=True, slots=True)
class GivenMention:
    """A mention as given in a file: its offsets and, in most formats, the text it covers."""

    fragments: tuple[Fragment, ...]
    expected: str | None
    same: Callable[[str, str], bool]

    def fits(self, text: str, counting: Counting | None) -> bool:
        """Whether it covers the expected text or, if none is given, whole words."""
        places = [counting.fragment(*part) for part in self.fragments] if counting else self.fragments
        if any(not 0 <= start < end <= len(text) for start, end in places):
            return False
        if self.expected is not None:
            return self.same(" ".join(text[start:end] for start, end in places), self.expected)
        return not any(is_cut(text, start, end) for start, end in places)


def is_cut(text: str, start: int, end: int) -> bool:
    """Whether a span begins or ends inside a word or on whitespace."""
    return text[start].isspace() or text[end - 1].isspace() or is_inside_word(text, start, end)


def is_inside_word(text: str, start: int, end: int) -> bool:
    """Whether a span begins or ends inside a word. Never true in scripts without spaces."""
    inner = (edge for edge in (start, end) if 0 < edge < len(text))
    return any(pair.isalnum() and max(pair) < "\u2e80" for pair in (text[edge - 1 : edge + 1] for edge in inner))


@dataclass
class _Tally:
    seen: int = 0
    off: int = 0
    judged: int = 0
    """Number of mentions in documents where at least one is off."""
    fits: Counter[tuple[str, ...]] = field(default_factory=Counter)
    """How many of those fit under each combination of conventions."""

    def explanation(self) -> tuple[str, ...]:
        """Return the simplest combination under which they fit, or ()."""
        good = [names for names in _COMBINATIONS if self.fits[names] >= (1 - _OFF) * self.judged]
        return min(good, key=lambda names: (len(names), -self.fits[names]), default=())


class OffsetEvidence:
    """Collects, document by document, how well mentions fit the text."""

    def __init__(self, conventions: Sequence[str]) -> None:
        self._used = tuple(conventions)
        self._told = _Tally()
        self._untold = _Tally()

    def add(self, text: str, mentions: Sequence[GivenMention]) -> None:
        """Add the mentions of one text."""
        counting = Counting(text, self._used) if self._used else None
        for tally, told in ((self._told, True), (self._untold, False)):
            mine = [mention for mention in mentions if (mention.expected is not None) == told]
            off = sum(not mention.fits(text, counting) for mention in mine)
            tally.seen += len(mine)
            tally.off += off
            if off:
                tally.judged += len(mine)
                tally.fits.update(fitting(text, mine))

    def check(self, where: Path) -> None:
        """Raise InputError if the offsets of a corpus do not count what they were read as."""
        told, untold = self._told, self._untold
        names = told.explanation()
        if too_many(told.off, told.seen, 2 if names else _SOME):
            counted = f"{told.off:,} of {told.seen:,} mentions have another text at their offsets"
            raise self._error(counted, names, where)
        names = untold.explanation()
        if names and too_many(untold.off, untold.seen, _SOME_CUT):
            counted = f"{untold.off:,} of {untold.seen:,} mentions begin or end inside a word or on whitespace"
            raise self._error(counted, names, where)

    def _error(self, counted: str, names: tuple[str, ...], where: Path) -> InputError:
        used = f" (read with offsets = {','.join(self._used)})" if self._used else ""
        if names:
            reason = f"All fit if {', and '.join(CONVENTIONS[name] for name in names)}"
            return InputError(f"{counted}{used}. {reason}", where=where, fix=how_to_read(names))
        tried = "Other line ends, byte-order marks, UTF-16 code units and bytes do not explain it"
        fix = (
            f"Check that texts and annotations belong together. {how_to_read((UNCHECKED,), 'to read them as they are')}"
        )
        return InputError(f"{counted}{used}. {tried}", where=where, fix=fix)


def fitting(text: str, mentions: Sequence[GivenMention]) -> Counter[tuple[str, ...]]:
    """Count the mentions of a text that fit, for each combination of conventions."""
    telling = {
        "lf": "\r\n" in text,
        "crlf": text.count("\n") > text.count("\r\n"),
        "bom": True,
        "no-bom": text.startswith(_BOM),
        "utf-16": any(letter > "\uffff" for letter in text),
        "bytes": not text.isascii(),
    }
    known: dict[tuple[str, ...], int] = {}
    found: Counter[tuple[str, ...]] = Counter()
    for names in _COMBINATIONS:
        # A convention that changes nothing in this text need not be tried.
        key = tuple(name for name in names if telling[name])
        if key not in known:
            counting = Counting(text, key)
            known[key] = sum(mention.fits(text, counting) for mention in mentions)
        found[names] = known[key]
    return found


def how_to_read(names: Sequence[str], purpose: str = "to read them that way") -> str:
    """Return advice on the option that reads such offsets."""
    value = ",".join(names)
    return f"Use --set options.offsets={value} {purpose} (when converting: --set read.offsets={value})"
