"""Runs of words as 64-bit hashes, to find text that two collections share.

Case, accents, punctuation, whitespace and the Unicode form of letters do not matter.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

BLOCK = 1 << 19
"""Characters to process at a time: arrays of their values stay in the tens of megabytes."""

_WORD = re.compile(r"\w+")
# Diacritics, and invisible characters inside words: soft hyphens, joiners.
_MARKS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f\u00ad\u200b-\u200d\u2060]")
# Values of characters that fold to nothing, to no part of a word, or to several characters.
_NOTHING, _BETWEEN, _SEVERAL = (np.uint64(value) for value in range(3))
_CHARACTERS = 0x10000
_BASE = 0x9E3779B97F4A7C15
_TABLE_BITS = (16, 26)  # 64 KB to 64 MB


def folded_words(text: str) -> list[str]:
    """Words of a text without case and accents, in one Unicode form."""
    return _WORD.findall(_folded(text))


def _folded(text: str) -> str:
    if not text.isascii():
        text = _MARKS.sub("", unicodedata.normalize("NFKD", text))
    return text.casefold()


class FoldedWords:
    """The folded words of some texts, one after the other.

    The texts become one array of characters in which words are separated by one character each. The hash of a run of words is
    the difference of two prefix sums of a polynomial in these characters, modulo 2**64, so no word ever becomes a string.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        values, ends = _characters(texts)
        self._stops = np.flatnonzero(values == _BETWEEN)
        self._starts = np.concatenate((np.zeros(1, dtype=np.int64), self._stops + 1))[: len(self._stops)]
        self.counts = np.diff(np.searchsorted(self._stops, ends), prepend=0)
        """Number of words of each text."""
        self._owner = np.repeat(np.arange(len(texts)), self.counts)
        powers, self._inverse = _powers(len(values).bit_length())
        self._sums = np.concatenate((np.zeros(1, dtype=np.uint64), np.cumsum(values * powers[: len(values)])))

    def runs(self, length: int, among: NDArray[np.int64] | None = None) -> tuple[Hashes, NDArray[np.int64]]:
        """Hashes of the runs of `length` words within a text, in order, and the index of the first word of each.

        With `among`, only runs that begin at one of these words.
        """
        last = len(self._owner) - length
        first = np.arange(max(0, last + 1)) if among is None else among[among <= last]
        first = first[self._owner[first] == self._owner[first + length - 1]]
        start, stop = self._starts[first], self._stops[first + length - 1]
        return _scrambled((self._sums[stop] - self._sums[start]) * self._inverse[start]), first


def ngrams(texts: Sequence[str], length: int) -> tuple[Hashes, NDArray[np.int64]]:
    """Return hashes of all runs of `length` folded words, text by text, and the number of runs in each text."""
    words = FoldedWords(texts)
    return words.runs(length)[0], np.maximum(words.counts - length + 1, 0)


def blocks(texts: Iterable[tuple[int, str]]) -> Iterator[tuple[list[int], list[str]]]:
    """Group numbered texts into blocks of about BLOCK characters. A longer text is cut, and its parts have the same number."""
    numbers: list[int] = []
    block: list[str] = []
    size = 0
    for number, text in texts:
        for start in range(0, len(text), BLOCK):
            numbers.append(number)
            block.append(text[start : start + BLOCK])
            size += len(block[-1])
            if size >= BLOCK:
                yield numbers, block
                numbers, block, size = [], [], 0
    if numbers:
        yield numbers, block


class HashTable:
    """Sorted hashes, with a table of flags that rules out nearly all others before a search."""

    def __init__(self, hashes: Hashes) -> None:
        self._hashes = hashes
        bits = min(max((16 * len(hashes)).bit_length(), _TABLE_BITS[0]), _TABLE_BITS[1])
        self._shift = np.uint64(64 - bits)
        self._known = np.zeros(1 << bits, dtype=np.bool_)
        self._known[hashes >> self._shift] = True

    def find(self, hashes: Hashes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which of these hashes are in the table, and their places in it."""
        likely = np.flatnonzero(self._known[hashes >> self._shift])
        likely = likely[np.argsort(hashes[likely])]  # searching in sorted order is several times as fast
        places = np.minimum(np.searchsorted(self._hashes, hashes[likely]), len(self._hashes) - 1)
        found = self._hashes[places] == hashes[likely]
        return likely[found], places[found]


def _characters(texts: Sequence[str]) -> tuple[Hashes, NDArray[np.int64]]:
    """The words of all texts, each followed by one _BETWEEN, as values of characters; and where each text ends."""
    if not texts:
        return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    raw, values, ends = _looked_up(texts)
    several = np.flatnonzero(values == _SEVERAL)
    if len(several):
        texts = list(texts)
        for number in np.unique(np.searchsorted(ends, several, side="right")).tolist():
            texts[number] = " ".join(folded_words(texts[number]))
        raw, values, ends = _looked_up(texts)
        # What is still not in the table is a letter.
        values = np.where(values == _SEVERAL, _scrambled(raw), values)
    values, ends = _kept(values, ends, values != _NOTHING)
    in_word = values != _BETWEEN
    ends_word = np.zeros_like(in_word)
    ends_word[1:] = in_word[:-1]
    return _kept(values, ends, in_word | ends_word)


def _looked_up(texts: Sequence[str]) -> tuple[NDArray[np.uint32], Hashes, NDArray[np.int64]]:
    """Characters of all texts, each text followed by a line break, their values, and where each text ends."""
    joined = "".join(f"{text}\n" for text in texts)
    raw = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    ends = np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)) + 1)
    return raw, _table()[np.minimum(raw, _CHARACTERS - 1)], ends


def _kept(values: Hashes, ends: NDArray[np.int64], keep: NDArray[np.bool_]) -> tuple[Hashes, NDArray[np.int64]]:
    return (values, ends) if keep.all() else (values[keep], np.cumsum(keep, dtype=np.int64)[ends - 1])


@cache
def _table() -> Hashes:
    """Value of every character up to U+FFFF; the last, which is no character, stands for all above."""
    codes = np.arange(_CHARACTERS)
    special: dict[np.uint64, list[int]] = {_NOTHING: [], _BETWEEN: [], _SEVERAL: [_CHARACTERS - 1]}
    for code in range(_CHARACTERS - 1):
        folded = _folded(chr(code))
        if not folded:
            special[_NOTHING].append(code)
        elif not _WORD.search(folded):
            special[_BETWEEN].append(code)
        elif len(folded) > 1:
            special[_SEVERAL].append(code)
        else:
            codes[code] = ord(folded)
    values = _scrambled(codes)
    for value, places in special.items():
        values[places] = value
    return values


@lru_cache(maxsize=2)
def _powers(bits: int) -> tuple[Hashes, Hashes]:
    """Powers 0 to 2**bits - 1 of an odd number modulo 2**64, and of its inverse."""
    return tuple(  # type: ignore[return-value]
        np.cumprod(np.r_[np.uint64(1), np.full((1 << bits) - 1, number, dtype=np.uint64)])
        for number in (_BASE, pow(_BASE, -1, 1 << 64))
    )


def _scrambled(values: NDArray[np.integer[Any]]) -> Hashes:
    """Spread differences over all bits, as the finaliser of splitmix64 does."""
    mixed = (values.astype(np.uint64) + np.uint64(_BASE)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(29)
    return mixed
