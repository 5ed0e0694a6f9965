"""Words with character offsets, and how they relate to sub-words."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

import numpy as np

Range = tuple[int, int]

# Zero-width marks that set the direction of writing or join nothing (byte order mark, zero-width space). They separate words
# like whitespace, so that a predicted span does not begin or end with something invisible.
_INVISIBLE = "\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff"
_OTHER = rf"[^\s{_INVISIBLE}]"
_PLAIN = re.compile(rf"[^\W\d_]+|\d+|{_OTHER}")
# Kind of each Latin-1 character: 0 separates words, adjacent letters (1) or digits (2) form a word, any other character (3) is a word.
_KINDS = np.array(
    [
        next((kind for kind, p in enumerate((r"[^\W\d_]", r"\d", _OTHER), 1) if re.match(p, chr(code))), 0)
        for code in range(256)
    ],
    dtype=np.uint8,
)
# Kana and Han are written without spaces. Every character is a word, so every mention can match word boundaries.
_KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
_UNSPACED = _KANA + "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HAS_UNSPACED = re.compile(f"[{_UNSPACED}]")


@lru_cache(maxsize=256)
def _pattern(marks: str, unspaced: bool) -> re.Pattern[str]:
    """Word pattern for a text with these combining marks."""
    letter = rf"(?![{_UNSPACED}])[^\W\d_]" if unspaced else r"[^\W\d_]"
    if not marks:
        return re.compile(rf"(?:{letter})+|\d+|{_OTHER}")
    mark = f"[{marks}]"
    return re.compile(rf"(?:{letter}{mark}*)+|(?:\d{mark}*)+|{_OTHER}{mark}*")


def words(text: str) -> list[Range]:
    """Half-open character range of every word; only whitespace and invisible marks lie between two words."""
    if len(text) > _SHORT:
        try:
            return _latin_words(text.encode("latin-1"))
        except UnicodeEncodeError:
            pass  # has other characters
    pattern = _PLAIN
    if not text.isascii():
        # `re` has no class for combining marks, so the pattern lists those that occur.
        marks = "".join(sorted(c for c in set(text) if c > "\u02ff" and unicodedata.category(c)[0] == "M"))
        unspaced = _HAS_UNSPACED.search(text) is not None
        if marks or unspaced:
            pattern = _pattern(marks, unspaced)
    return [match.span() for match in pattern.finditer(text)]


_SHORT = 100
"""Up to this many characters, a pattern is faster than numpy."""


def _latin_words(text: bytes) -> list[Range]:
    """The words that `_PLAIN` finds, in a quarter of its time."""
    kinds = _KINDS[np.frombuffer(text, dtype=np.uint8)]
    edges = np.flatnonzero((kinds[1:] != kinds[:-1]) | (kinds[1:] == 3)) + 1
    starts = np.concatenate(([0], edges))
    inside = kinds[starts] != 0
    ends = np.concatenate((edges, [len(text)]))
    return list(zip(starts[inside].tolist(), ends[inside].tolist(), strict=True))


def line_ranges(text: str) -> list[Range]:
    """Half-open character range of every line, without its line break."""
    ends = [match.start() for match in re.finditer("\n|\\Z", text)]
    return list(zip([0, *(end + 1 for end in ends)], ends, strict=False))


def covered(ranges: Sequence[Range], start: int, end: int) -> range:
    """Indices of the ranges (sorted, disjoint, not empty) that share a character with `start`..`end`."""
    first = bisect_right(ranges, start, key=lambda r: r[1])
    if start >= end:
        return range(first, first)
    return range(first, max(first, bisect_left(ranges, end, key=lambda r: r[0])))


def word_of_subword(words: Sequence[Range], offsets: Sequence[Range]) -> list[int | None]:
    """Index of the first word that each sub-word shares a character with; None if there is none.

    Whitespace around a sub-word makes no difference: no word has any.
    """
    return [None if word < 0 else word for word in subword_owners(words, offsets).tolist()]


def subword_owners(words: Sequence[Range], offsets: Sequence[Range]) -> np.ndarray:
    """`word_of_subword` as an array, with -1 for None."""
    if not words or not offsets:
        return np.full(len(offsets), -1)
    (word_starts, word_ends), (starts, ends) = _columns(words), _columns(offsets)
    # Only the first word that ends after the start of a sub-word can be the first to share a character.
    first = np.searchsorted(word_ends, starts, side="right")
    there = (starts < ends) & (first < len(words))
    shares = there & (word_starts[np.where(there, first, 0)] < ends)
    return np.where(shares, first, -1)


def _columns(ranges: Sequence[Range]) -> np.ndarray:
    """Starts and ends, in half the time that `np.array` takes for tuples."""
    return np.fromiter(chain.from_iterable(ranges), dtype=np.int64, count=2 * len(ranges)).reshape(-1, 2).T
