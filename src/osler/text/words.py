"""Words with character offsets, and how they relate to sub-words."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache

Range = tuple[int, int]

_PLAIN = re.compile(r"[^\W\d_]+|\d+|\S")
# Kana and Han: no blanks show where their words end, so a finer cut is the only one that every mention can match.
_KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
_UNSPACED = _KANA + "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HAS_UNSPACED = re.compile(f"[{_UNSPACED}]")


@lru_cache(maxsize=256)
def _pattern(marks: str, unspaced: bool) -> re.Pattern[str]:
    """The word pattern for a text that contains these combining marks."""
    letter = rf"(?![{_UNSPACED}])[^\W\d_]" if unspaced else r"[^\W\d_]"
    if not marks:
        return re.compile(rf"(?:{letter})+|\d+|\S")
    mark = f"[{marks}]"
    return re.compile(rf"(?:{letter}{mark}*)+|(?:\d{mark}*)+|\S{mark}*")


def words(text: str) -> list[Range]:
    """The half-open character range of every word; what lies between two words is whitespace only."""
    pattern = _PLAIN
    if not text.isascii():
        # `re` knows no class of combining marks, so those that occur are named one by one.
        marks = "".join(sorted(c for c in set(text) if c > "\u02ff" and unicodedata.category(c)[0] == "M"))
        unspaced = _HAS_UNSPACED.search(text) is not None
        if marks or unspaced:
            pattern = _pattern(marks, unspaced)
    return [match.span() for match in pattern.finditer(text)]


def trim_offsets(text: str, offsets: Sequence[Range]) -> list[Range]:
    """Take whitespace off both ends of every range; what was whitespace only becomes empty, at its end."""
    trimmed: list[Range] = []
    for start, end in offsets:
        while start < end and text[start].isspace():
            start += 1
        while end > start and text[end - 1].isspace():
            end -= 1
        trimmed.append((start, end))
    return trimmed


def covered(ranges: Sequence[Range], start: int, end: int) -> range:
    """The indices of the ranges (sorted, disjoint, not empty) that share a character with `start`..`end`."""
    first = bisect_right(ranges, start, key=lambda r: r[1])
    if start >= end:
        return range(first, first)
    return range(first, max(first, bisect_left(ranges, end, key=lambda r: r[0])))


def word_of_subword(words: Sequence[Range], offsets: Sequence[Range]) -> list[int | None]:
    """The index of the first word that each sub-word shares a character with, None where there is none."""
    ends = [end for _, end in words]
    owners: list[int | None] = []
    for start, end in offsets:
        # The first word that ends behind `start` is the only one that can be the first to share a character.
        index = bisect_right(ends, start)
        shares = start < end and index < len(ends) and words[index][0] < end
        owners.append(index if shares else None)
    return owners


def subwords_of_words(words: Sequence[Range], offsets: Sequence[Range]) -> list[range]:
    """The sub-words that share a character with each word; empty where a tokenizer dropped the word.

    Unlike `word_of_subword` this gives every word its sub-words, also where one sub-word reaches over several words.
    """
    found: list[range] = [range(0)] * len(words)
    for position, (start, end) in enumerate(offsets):
        for index in covered(words, start, end):
            first = found[index].start if found[index] else position
            found[index] = range(first, position + 1)
    return found


def first_subwords(word_ids: Sequence[int | None]) -> list[bool]:
    """Whether each sub-word is the first of its word; False for those that belong to no word."""
    seen: set[int] = set()
    first: list[bool] = []
    for word in word_ids:
        first.append(word is not None and word not in seen)
        if word is not None:
            seen.add(word)
    return first
