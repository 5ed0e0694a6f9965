"""Find records that occur more than once, within the splits of a task and across tasks.

There are three kinds of evidence, from weak to strong:

- the same `id`: ids of different corpora may coincide;
- `near`: two thirds of the five-word runs of the shorter text also occur in the other text. This finds a case report
  that one corpus has with a header and another without, and a sentence that one corpus has alone and another within its
  abstract. All runs are compared: comparing a sample of them missed one copy in forty;
- the same `text`: the same words in the same order, ignoring case, whitespace and punctuation.

A text of fewer than five words is too short to count as a copy. A text of fewer than sixteen runs is near to a text that
shares half of them and is at most twice as long, because so few words can occur in a long text by chance.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from osler.text.document import Document, Record

_WORD = re.compile(r"\w+")
_RUN = 5
_ALIKE = 2 / 3
_SHORT = 16
_ALIKE_SHORT = 1 / 2
# A run of words in more documents than this is boilerplate.
_COMMON = 200


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Hashes that identify a record without its text."""

    id: str
    text: bytes
    """Hash of the words; empty if there are too few."""
    runs: NDArray[np.uint64] = field(compare=False)
    """Sorted hashes of the distinct runs of words."""


_NO_RUNS: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)


def fingerprint(record: Record, *, near: bool = True) -> Fingerprint:
    """Return the fingerprint of a document or of an unordered pair; with `near`, also its runs of words."""
    if isinstance(record, Document):
        words = _WORD.findall(record.text.casefold())
        joined = " ".join(words)
    else:
        sides = sorted((_WORD.findall(record.first.casefold()), _WORD.findall(record.second.casefold())))
        words = sides[0] + sides[1]
        joined = "\n".join(" ".join(side) for side in sides)
    if len(words) < _RUN:
        return Fingerprint(record.id, b"", _NO_RUNS)
    text = hashlib.blake2b(joined.encode(), digest_size=16).digest()
    return Fingerprint(record.id, text, _runs(words) if near else _NO_RUNS)


@lru_cache(maxsize=1 << 16)
def _word_hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")


def _runs(words: Sequence[str]) -> NDArray[np.uint64]:
    hashes: NDArray[np.uint64] = np.fromiter(map(_word_hash, words), dtype=np.uint64, count=len(words))
    runs = np.zeros(len(words) - _RUN + 1, dtype=np.uint64)
    for place in range(_RUN):
        # A polynomial of the word hashes modulo 2**64 depends on the order of the words.
        runs = runs * np.uint64(0x9E3779B97F4A7C15) + hashes[place : len(words) - _RUN + 1 + place]
    return np.unique(runs ^ (runs >> np.uint64(29)))


class FingerprintIndex:
    """Fingerprints by name, such as a split of a task. It tells which names hold a given record."""

    def __init__(self) -> None:
        self._texts: dict[bytes, set[str]] = defaultdict(set)
        self._ids: dict[str, set[str]] = defaultdict(set)
        self._owners: list[str] = []
        self._runs: list[NDArray[np.uint64]] = []
        self._table: tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.int64]] | None = None

    def add(self, name: str, print_: Fingerprint) -> None:
        self._ids[print_.id].add(name)
        if print_.text:
            self._texts[print_.text].add(name)
            self._owners.append(name)
            self._runs.append(print_.runs)
            self._table = None

    def same_text(self, print_: Fingerprint) -> set[str]:
        return self._texts.get(print_.text, set()) if print_.text else set()

    def same_id(self, print_: Fingerprint) -> set[str]:
        return self._ids.get(print_.id, set())

    def near(self, print_: Fingerprint) -> set[str]:
        """Names that hold the same text or one that shares most of its runs."""
        names = set(self.same_text(print_))
        if print_.text and self._runs:
            names |= {self._owners[owner] for owner in self._alike(print_.runs)}
        return names

    def _alike(self, runs: NDArray[np.uint64]) -> list[int]:
        """Numbers of the texts that share most of these runs."""
        if self._table is None:
            # One sorted table of all runs: twelve bytes per run, one lookup for all runs of a text.
            sizes = np.array([len(text) for text in self._runs], dtype=np.int64)
            hashes = np.concatenate(self._runs)
            order = np.argsort(hashes, kind="stable")
            owners = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
            self._table = hashes[order], owners[order], sizes
        hashes, owners, sizes = self._table
        first = np.searchsorted(hashes, runs, side="left")
        count = np.searchsorted(hashes, runs, side="right") - first
        telling = (count > 0) & (count <= _COMMON)
        first, count = first[telling], count[telling]
        places = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
        found, shared = np.unique(owners[places], return_counts=True)
        shorter, longer = np.minimum(sizes[found], len(runs)), np.maximum(sizes[found], len(runs))
        short = (shared >= _ALIKE_SHORT * shorter) & (longer <= 2 * shorter)
        alike: list[int] = found[np.where(shorter < _SHORT, short, shared >= _ALIKE * shorter)].tolist()
        return alike


@dataclass(frozen=True)
class SharedRecords:
    """How many records of one split (`of`) also occur in another (`within`), per kind of evidence."""

    of: str
    within: str
    ids: int
    texts: int
    near: int
    """Records with a near copy and no exact one; exact copies are in `texts`."""


def overlaps(prints: Mapping[str, Sequence[Fingerprint]], pairs: Iterable[tuple[str, str]]) -> list[SharedRecords]:
    """Count, for each pair of names, the records of the first that also occur in the second; omit zeros."""
    wanted: dict[str, set[str]] = defaultdict(set)
    for of, within in pairs:
        wanted[of].add(within)
    index = FingerprintIndex()
    for name, items in prints.items():
        for item in items:
            index.add(name, item)
    found = []
    for of, others in wanted.items():
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for item in prints[of]:
            same = index.same_text(item)
            for kind, names in (("ids", index.same_id(item)), ("texts", same), ("near", index.near(item) - same)):
                for within in names & others:
                    counts[within][kind] += 1
        found += [SharedRecords(of, name, c["ids"], c["texts"], c["near"]) for name, c in sorted(counts.items())]
    return found


@dataclass(frozen=True)
class Leaks:
    """How many training records of a task are held out, out of how many, and by which tasks."""

    found: int
    of: int
    owners: Counter[str]

    @classmethod
    def count(cls, owners: Sequence[set[str]]) -> Leaks:
        """Count the results of `HeldOut.owners`, one per training record."""
        return cls(sum(map(bool, owners)), len(owners), Counter(name for names in owners for name in names))


class HeldOut:
    """The records that tasks hold out for model selection or testing, by task or by `split of task`."""

    def __init__(self, held_out: Mapping[str, Iterable[Record]]) -> None:
        self._index = FingerprintIndex()
        self._names = set(held_out)
        for name, records in held_out.items():
            for record in records:
                self._index.add(name, fingerprint(record))

    def owners(self, name: str, record: Record) -> set[str]:
        """Tasks or splits that hold out a training record of this task, or of a corpus of another name.

        The task's own held-out records must have the same text, because published numbers depend on its training set.
        Those of other tasks count if they are near.
        """
        own = {held for held in self._names if held.rpartition(" of ")[2] == name}
        others = bool(self._names - own)
        print_ = fingerprint(record, near=others)
        found = self._index.same_text(print_)
        return found | (self._index.near(print_) - own) if others else set(found)


def without_leaks(
    train: Mapping[str, Sequence[Record]], held_out: HeldOut
) -> tuple[dict[str, list[Record]], dict[str, Leaks]]:
    """Remove held-out records from the training records of each task; return the rest, and what was removed."""
    kept: dict[str, list[Record]] = {}
    leaks: dict[str, Leaks] = {}
    for name, records in train.items():
        owners = [held_out.owners(name, record) for record in records]
        kept[name] = [record for record, found in zip(records, owners, strict=True) if not found]
        leaks[name] = Leaks.count(owners)
    return kept, leaks
