"""Lists of terms, and the share of a text that they cover."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from osler.core.errors import InputError
from osler.text.ngrams import FoldedWords, HashTable, blocks


def read_terms(path: Path) -> list[str]:
    """Read a text file with one term per line; blank lines and lines that begin with # are skipped."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise InputError("no such file", where=path, fix="Check the path of the list") from None
    except IsADirectoryError:
        raise InputError("this is a folder", where=path, fix="Give a text file with one term per line") from None
    except UnicodeDecodeError:
        raise InputError("the file is not UTF-8 text", where=path, fix="Save the list as UTF-8") from None
    terms = [" ".join(unicodedata.normalize("NFC", line).split()) for line in lines]
    kept = list(dict.fromkeys(term for term in terms if term and not term.startswith("#")))
    if not kept:
        raise InputError("the file has no terms", where=path, fix="Write one term per line")
    return kept


_SHORT = 3


class TermList:
    """Finds terms in texts, ignoring case, accents and the punctuation between words."""

    def __init__(self, terms: Iterable[str]) -> None:
        words = FoldedWords(list(terms))
        starts = np.cumsum(words.counts) - words.counts
        lengths = {int(length): starts[words.counts == length] for length in np.unique(words.counts) if length}
        self._tables = {length: _table(words, length, places) for length, places in lengths.items()}
        long = np.sort(np.concatenate([starts[:0], *(lengths[length] for length in lengths if length > _SHORT)]))
        self._beginnings = _table(words, _SHORT, long) if len(long) else None
        """First words of longer terms: they rule out most places of a text before the full terms are looked up."""

    def density(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Share of the words of each text that are part of a term; 0 for a text without words."""
        inside, words = np.zeros(len(texts)), np.zeros(len(texts))
        for numbers, block in blocks(enumerate(texts)):
            found, counts = self._count(block)
            np.add.at(inside, numbers, found)
            np.add.at(words, numbers, counts)
        return inside / np.maximum(words, 1)

    def _count(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Words of each text that are part of a term, and all its words."""
        words = FoldedWords(texts)
        edges = np.zeros(int(words.counts.sum()) + 1, dtype=np.int64)
        hopeful = _found(self._beginnings, words, _SHORT) if self._beginnings else edges[:0]
        for length, table in self._tables.items():
            if length > _SHORT and not len(hopeful):
                break
            begins = _found(table, words, length, hopeful if length > _SHORT else None)
            edges[begins] += 1  # distinct indices, so each is counted
            edges[begins + length] -= 1
        inside = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(np.cumsum(edges[:-1]) > 0)))
        ends = np.cumsum(words.counts)
        return inside[ends] - inside[ends - words.counts], words.counts


def _table(words: FoldedWords, length: int, places: NDArray[np.int64]) -> HashTable:
    return HashTable(np.unique(words.runs(length, places)[0]))


def _found(
    table: HashTable, words: FoldedWords, length: int, among: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """First words of the runs that are in the table."""
    hashes, first = words.runs(length, among)
    return first[table.find(hashes)[0]]


def terms_digest(path: Path) -> str:
    """Hash of the terms of a file, in order."""
    return hashlib.sha256("\n".join(read_terms(path)).encode()).hexdigest()


def term_list(path: Path) -> TermList:
    """Read a list of terms once per process, and again if the file has changed."""
    try:
        status = path.stat()
    except OSError:
        return TermList(read_terms(path))  # raises an error that says what is wrong
    return _term_list(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4)
def _term_list(path: Path, size: int, changed: int) -> TermList:
    return TermList(read_terms(path))
