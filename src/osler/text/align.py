"""Relate characters, words and sub-words through their character ranges.

Only ranges are needed, so any fast tokenizer will do. Their ranges have quirks that are settled here: byte-level BPE
may count the blank before a word as part of it; a character of several bytes may be spread over sub-words that all
carry its range; a lone blank marker, a special token or padding covers no character. A sub-word that covers nothing but
whitespace belongs to no word. One that reaches over several words belongs to the first of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from osler.text.words import Range


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
