"""Documents that occur more than once, within a task's splits and across tasks, found by id and by text.

Three kinds of evidence, from weak to strong. The same `id`: numbers of different corpora may coincide. `near`: two thirds of the
shorter text's runs of five words are in the other one too; it finds a case report that one corpus gives with a header and another
without, and a sentence that one corpus gives by itself and another in its abstract. All runs are compared: a sample of them would
miss one copy in forty. `text`: the same words in the same order, whatever their case, accents as they are, and punctuation.

A text of fewer than five words says too little to be taken for a copy. One of fewer than sixteen runs is near to a text that shares
half of them and is at most twice as long: so few words can stand in a long text by chance.
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
# A run of words that so many documents share is boiler-plate and tells nothing about any two of them.
_COMMON = 200


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What identifies a record without its text."""

    id: str
    text: bytes
    """A hash of the words, empty where there are too few."""
    runs: NDArray[np.uint64] = field(compare=False)
    """The hashes of its runs of words, each once, sorted."""


_NO_RUNS: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)


def fingerprint(record: Record, *, near: bool = True) -> Fingerprint:
    """The fingerprint of a document, or of a pair whose order does not matter; `near`: also what finds texts nearly the same."""
    if isinstance(record, Document):
        words = _WORD.findall(record.text.casefold())
        whole = " ".join(words)
    else:
        sides = sorted((_WORD.findall(record.first.casefold()), _WORD.findall(record.second.casefold())))
        words = sides[0] + sides[1]
        whole = "\n".join(" ".join(side) for side in sides)
    if len(words) < _RUN:
        return Fingerprint(record.id, b"", _NO_RUNS)
    text = hashlib.blake2b(whole.encode(), digest_size=16).digest()
    return Fingerprint(record.id, text, _runs(words) if near else _NO_RUNS)


@lru_cache(maxsize=1 << 16)
def _word_hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")


def _runs(words: Sequence[str]) -> NDArray[np.uint64]:
    hashes: NDArray[np.uint64] = np.fromiter(map(_word_hash, words), dtype=np.uint64, count=len(words))
    runs = np.zeros(len(words) - _RUN + 1, dtype=np.uint64)
    for place in range(_RUN):
        # A polynomial of the word hashes, modulo 2**64: the order of the words counts.
        runs = runs * np.uint64(0x9E3779B97F4A7C15) + hashes[place : len(words) - _RUN + 1 + place]
    return np.unique(runs ^ (runs >> np.uint64(29)))


class Index:
    """Fingerprints under names, to be asked which of them a record repeats."""

    def __init__(self) -> None:
        self._texts: dict[bytes, set[str]] = defaultdict(set)
        self._ids: dict[str, set[str]] = defaultdict(set)
        self._owners: list[str] = []
        self._runs: list[NDArray[np.uint64]] = []
        self._sorted: _Runs | None = None

    def add(self, name: str, print_: Fingerprint) -> None:
        """Put one fingerprint under a name (a task's split, say)."""
        self._ids[print_.id].add(name)
        if print_.text:
            self._texts[print_.text].add(name)
            self._owners.append(name)
            self._runs.append(print_.runs)
            self._sorted = None

    def same_text(self, print_: Fingerprint) -> set[str]:
        """The names under which the same text lies."""
        return self._texts.get(print_.text, set()) if print_.text else set()

    def same_id(self, print_: Fingerprint) -> set[str]:
        """The names under which the same id lies."""
        return self._ids.get(print_.id, set())

    def near(self, print_: Fingerprint) -> set[str]:
        """The names under which a text lies that shares most of its runs, the same text included."""
        names = set(self.same_text(print_))
        if print_.text and self._runs:
            if self._sorted is None:
                self._sorted = _Runs.of(self._runs)
            names |= {self._owners[owner] for owner in self._sorted.alike(print_.runs)}
        return names


@dataclass(frozen=True)
class _Runs:
    """The runs of many texts in one sorted table, which takes twelve bytes a run and answers for a whole text at once."""

    hashes: NDArray[np.uint64]
    owners: NDArray[np.int32]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Sequence[NDArray[np.uint64]]) -> _Runs:
        sizes = np.array([len(runs) for runs in texts], dtype=np.int64)
        hashes = np.concatenate(texts)
        order = np.argsort(hashes, kind="stable")
        return cls(hashes[order], np.repeat(np.arange(len(texts), dtype=np.int32), sizes)[order], sizes)

    def alike(self, runs: NDArray[np.uint64]) -> list[int]:
        """The texts that these runs are nearly those of, by their numbers."""
        first = np.searchsorted(self.hashes, runs, side="left")
        count = np.searchsorted(self.hashes, runs, side="right") - first
        telling = (count > 0) & (count <= _COMMON)
        first, count = first[telling], count[telling]
        places = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
        owners, shared = np.unique(self.owners[places], return_counts=True)
        shorter, longer = np.minimum(self.sizes[owners], len(runs)), np.maximum(self.sizes[owners], len(runs))
        short = (shared >= _ALIKE_SHORT * shorter) & (longer <= 2 * shorter)
        found: list[int] = owners[np.where(shorter < _SHORT, short, shared >= _ALIKE * shorter)].tolist()
        return found


@dataclass(frozen=True)
class SharedRecords:
    """How many records of one split (`of`) are, by each kind of evidence, also in another (`within`)."""

    of: str
    within: str
    ids: int
    texts: int
    near: int


def overlaps(
    prints: Mapping[str, Sequence[Fingerprint]], pairs: Iterable[tuple[str, str]], index: Index | None = None
) -> list[SharedRecords]:
    """Count the records of the first of each pair that are in the second too; pairs without any are left out."""
    wanted: dict[str, set[str]] = defaultdict(set)
    for of, within in pairs:
        wanted[of].add(within)
    if index is None:
        index = Index()
        for name, items in prints.items():
            for item in items:
                index.add(name, item)
    found = []
    for of, others in wanted.items():
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for item in prints[of]:
            for kind, names in (("ids", index.same_id), ("texts", index.same_text), ("near", index.near)):
                for within in names(item) & others:
                    counts[within][kind] += 1
        found += [SharedRecords(of, name, c["ids"], c["texts"], c["near"]) for name, c in sorted(counts.items())]
    return found


class HeldOut:
    """What tasks hold out for choosing or testing, to be asked whether a training record gives some of it away."""

    def __init__(self, held_out: Mapping[str, Iterable[Record]]) -> None:
        self._index = Index()
        self._names = set(held_out)
        for name, records in held_out.items():
            for record in records:
                self._index.add(name, fingerprint(record))

    def gives_away(self, name: str, record: Record) -> bool:
        """Whether a record of one task's training (or of a corpus of any other name) repeats what some task holds out.

        A task's own held-out records count where the text is the same; another task's also where it is nearly the same, since
        nobody published numbers on that mixture that removing more could spoil.
        """
        others = bool(self._names - {name})
        print_ = fingerprint(record, near=others)
        return bool(self._index.same_text(print_) or (others and self._index.near(print_) - {name}))


def without_leaks(
    train: Mapping[str, Sequence[Record]], held_out: Mapping[str, Iterable[Record]] | HeldOut
) -> tuple[dict[str, list[Record]], dict[str, int]]:
    """Take out of each task's training records what any task holds out; returns what is kept and how many were removed."""
    known = held_out if isinstance(held_out, HeldOut) else HeldOut(held_out)
    kept = {
        name: [record for record in records if not known.gives_away(name, record)] for name, records in train.items()
    }
    return kept, {name: len(records) - len(kept[name]) for name, records in train.items()}
