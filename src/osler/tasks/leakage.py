"""Find records that occur more than once, within the splits of a task and across tasks.

Texts are compared by their words: case, accents, punctuation, whitespace and the Unicode form of letters do not matter.
There are three kinds of evidence, from weak to strong:

- the same `id`: ids of different corpora may coincide;
- `near`: either the shorter text is largely within the other one, or one is an edited copy of the other.
  Within: two thirds of its five-word runs occur there too. This finds a case report that one corpus has with a header and
  another without, and a sentence that one corpus has alone and another within its abstract. A text of fewer than twenty
  words must share half of its runs with a text at most twice as long, because so few words can occur in a long text by
  chance. All runs are compared: comparing a sample of them missed one copy in forty.
  Edited: two thirds of the words are the same in the same order, three quarters below twenty words. This finds a copy in
  which every fifth word was replaced. Texts of fewer than ten words are too easily alike ("No drug interaction studies
  have been performed");
- the same `text`: the same words in the same order. A copy of fewer than five words is counted separately, as `short`: "Not
  applicable ." in two splits says nothing about where it comes from.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from osler.text.document import Document, Record
from osler.text.ngrams import Hashes, folded_words

SHORT_TEXT = 5
"""Texts with fewer words are only compared exactly, counted separately and never removed."""
_RUN = SHORT_TEXT
_ALIKE = 2 / 3
_ALIKE_FEW = 1 / 2
_FEW_WORDS = 20
_FEW_RUNS = _FEW_WORDS - _RUN + 1
_EDITED = 2 / 3
_EDITED_FEW = 3 / 4
_EDITED_WORDS = 10
# Only texts that share some of these shorter runs are compared word by word.
_PIECE = 3
_PIECES = 1 / 4
# A run of words in more documents than this is boilerplate.
_COMMON = 200

_NONE: Hashes = np.zeros(0, dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Hashes that identify a record without its text."""

    id: str
    text: bytes
    """Hash of the words; empty if there are none."""
    short: bool
    """Whether there are too few words for more than an exact comparison."""
    words: Hashes = field(compare=False)
    """Hashes of the words in order. Empty, like the runs, if only exact copies are looked for."""
    runs: Hashes = field(compare=False)
    """Sorted hashes of the distinct runs of five words."""
    pieces: Hashes = field(compare=False)
    """Sorted hashes of the distinct runs of three words."""


def fingerprint(record: Record, *, near: bool = True) -> Fingerprint:
    """Return the fingerprint of a document or of an unordered pair; with `near`, also its runs of words."""
    if isinstance(record, Document):
        words = folded_words(record.text)
        joined = " ".join(words)
    else:
        sides = sorted((folded_words(record.first), folded_words(record.second)))
        words = sides[0] + sides[1]
        joined = "\n".join(" ".join(side) for side in sides)
    text = hashlib.blake2b(joined.encode(), digest_size=16).digest() if words else b""
    if len(words) < SHORT_TEXT or not near:
        return Fingerprint(record.id, text, len(words) < SHORT_TEXT, _NONE, _NONE, _NONE)
    hashes = np.fromiter(map(_word_hash, words), dtype=np.uint64, count=len(words))
    return Fingerprint(record.id, text, False, hashes, _runs(hashes, _RUN), _runs(hashes, _PIECE))


@lru_cache(maxsize=1 << 18)
def _word_hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")


def _runs(words: Hashes, length: int) -> Hashes:
    count = len(words) - length + 1
    runs = np.zeros(count, dtype=np.uint64)
    for place in range(length):
        # A polynomial of the word hashes modulo 2**64 depends on the order of the words.
        runs = runs * np.uint64(0x9E3779B97F4A7C15) + words[place : count + place]
    return np.unique(runs ^ (runs >> np.uint64(29)))


class _RunTable:
    """Which texts hold a run: one sorted table, about twenty bytes per run, one lookup for all runs of a text."""

    def __init__(self, texts: Sequence[Hashes]) -> None:
        self.sizes = np.array([len(text) for text in texts], dtype=np.int64)
        hashes = np.concatenate(texts)
        order = np.argsort(hashes, kind="stable")
        self._owners = np.repeat(np.arange(len(texts), dtype=np.int32), self.sizes)[order]
        self._hashes, self._first = np.unique(hashes[order], return_index=True)
        self._count = np.diff(self._first, append=len(hashes))

    def shared(self, runs: Hashes) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the texts that hold some of these runs, and how many each; boilerplate does not count."""
        places = np.minimum(np.searchsorted(self._hashes, runs), len(self._hashes) - 1)
        places = places[(self._hashes[places] == runs) & (self._count[places] <= _COMMON)]
        first, count = self._first[places], self._count[places]
        owners = self._owners[np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())]
        return np.unique(owners, return_counts=True)


class FingerprintIndex:
    """Fingerprints by name, such as a split of a task; looks up which names hold a record."""

    def __init__(self) -> None:
        self._texts: dict[bytes, set[str]] = defaultdict(set)
        self._ids: dict[str, set[str]] = defaultdict(set)
        self._owners: list[str] = []
        self._prints: list[Fingerprint] = []
        self._tables: tuple[_RunTable, _RunTable] | None = None

    def add(self, name: str, print_: Fingerprint) -> None:
        self._ids[print_.id].add(name)
        if print_.text:
            self._texts[print_.text].add(name)
        if len(print_.runs):
            self._owners.append(name)
            self._prints.append(print_)
            self._tables = None

    def same_text(self, print_: Fingerprint) -> set[str]:
        return self._texts.get(print_.text, set())

    def same_id(self, print_: Fingerprint) -> set[str]:
        return self._ids.get(print_.id, set())

    def near(self, print_: Fingerprint, *, strict: bool = False) -> set[str]:
        """Names that hold the same text, one that shares most of its runs, or one with most of its words in order.

        `strict` is for removing records: edited copies must have twenty words, three quarters of them in order.
        """
        names = set(self.same_text(print_))
        if len(print_.runs) and self._prints:
            if self._tables is None:
                prints = self._prints
                self._tables = _RunTable([item.runs for item in prints]), _RunTable([item.pieces for item in prints])
            runs, pieces = self._tables
            names |= {self._owners[number] for number in _alike(print_, runs)}
            names |= {
                self._owners[number]
                for number in _edited(print_, pieces)
                if self._owners[number] not in names and _same_order(print_.words, self._prints[number].words, strict)
            }
        return names


def _alike(print_: Fingerprint, table: _RunTable) -> list[int]:
    """Numbers of the texts that share most runs of five words with this one."""
    found, shared = table.shared(print_.runs)
    shorter = np.minimum(table.sizes[found], len(print_.runs))
    longer = np.maximum(table.sizes[found], len(print_.runs))
    few = (shared >= _ALIKE_FEW * shorter) & (longer <= 2 * shorter)
    alike: list[int] = found[np.where(shorter < _FEW_RUNS, few, shared >= _ALIKE * shorter)].tolist()
    return alike


def _edited(print_: Fingerprint, table: _RunTable) -> list[int]:
    """Numbers of the texts that may be edited copies of this one."""
    if len(print_.words) < _EDITED_WORDS:
        return []
    found, shared = table.shared(print_.pieces)
    shorter = np.minimum(table.sizes[found], len(print_.pieces))
    edited: list[int] = found[shared >= _PIECES * shorter].tolist()
    return edited


def _same_order(first: Hashes, second: Hashes, strict: bool) -> bool:
    """Whether most words of the longer text are also in the shorter one, in the same order."""
    shorter, longer = sorted((len(first), len(second)))
    wanted = (_EDITED_FEW if strict or shorter < _FEW_WORDS else _EDITED) * longer
    if shorter < max(wanted, _FEW_WORDS if strict else _EDITED_WORDS):
        return False
    # Longest common subsequence, with a row of the table in the bits of one integer (Hyyrö 2004).
    places: dict[int, int] = {}
    for place, word in enumerate(first.tolist()):
        places[word] = places.get(word, 0) | 1 << place
    row = whole = (1 << len(first)) - 1
    for word in second.tolist():
        matching = row & places.get(word, 0)
        row = (row + matching) | (row - matching)
    return len(first) - (row & whole).bit_count() >= wanted


@dataclass(frozen=True)
class SharedRecords:
    """How many records of one split (`of`) also occur in another (`within`), per kind of evidence."""

    of: str
    within: str
    ids: int
    texts: int
    near: int
    """Records with a near copy and no exact one; exact copies are in `texts`."""
    short: int = 0
    """Exact copies of fewer than five words; they are not in `texts`."""

    @property
    def telling(self) -> bool:
        """Whether more than ids coincide."""
        return bool(self.texts or self.near or self.short)


def copied_from(training: Iterable[Record], records: Sequence[Record]) -> list[bool]:
    """Which records are exact or near copies of a training record, judged as strictly as when removing copies."""
    index = FingerprintIndex()
    for record in training:
        index.add("training", fingerprint(record))
    return [not print_.short and bool(index.near(print_, strict=True)) for print_ in map(fingerprint, records)]


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
            exact = "short" if item.short else "texts"
            for kind, names in (("ids", index.same_id(item)), (exact, same), ("near", index.near(item) - same)):
                for within in names & others:
                    counts[within][kind] += 1
        found += [
            SharedRecords(of, name, c["ids"], c["texts"], c["near"], c["short"]) for name, c in sorted(counts.items())
        ]
    return found


@dataclass(frozen=True)
class Leaks:
    """Training records of a task that are held out elsewhere: how many, out of how many, and by which tasks."""

    found: int
    of: int
    owners: Counter[str]
    short: int = 0
    """Exact copies of fewer than five words, not in `found`; they are never removed."""

    @classmethod
    def count(cls, owners: Sequence[set[str]], short: int = 0) -> Leaks:
        """Count the results of `HeldOut.owners`, one per training record."""
        return cls(
            sum(map(bool, owners)), len(owners), Counter(name for names in owners for name in sorted(names)), short
        )


class HeldOut:
    """The records that tasks hold out for model selection or testing, by task or by `split of task`."""

    def __init__(self, held_out: Mapping[str, Iterable[Record]]) -> None:
        self._index = FingerprintIndex()
        self._names = set(held_out)
        for name, records in held_out.items():
            for record in records:
                self._index.add(name, fingerprint(record))

    def owners(self, name: str, record: Record) -> set[str]:
        """Tasks or splits that hold out a training record of the task or corpus `name`.

        The task's own held-out records must have the same text, because published numbers depend on its training set.
        Those of other tasks count if they are near. Texts of fewer than five words have no owner. Notes written from one
        template look alike without being copies, so edited copies must match more closely here than where they are counted.
        """
        own = {held for held in self._names if held.rpartition(" of ")[2] == name}
        others = bool(self._names - own)
        print_ = fingerprint(record, near=others)
        if print_.short:
            return set()
        same = self._index.same_text(print_)
        return same | (self._index.near(print_, strict=True) - own) if others else set(same)

    def has_short_copy(self, record: Record) -> bool:
        """Whether a record of fewer than five words is held out word for word."""
        print_ = fingerprint(record, near=False)
        return print_.short and bool(self._index.same_text(print_))


def without_leaks(
    train: Mapping[str, Sequence[Record]], held_out: HeldOut
) -> tuple[dict[str, list[Record]], dict[str, Leaks]]:
    """Remove held-out records from the training records of each task; return the rest, and what was removed."""
    kept: dict[str, list[Record]] = {}
    leaks: dict[str, Leaks] = {}
    for name, records in train.items():
        owners = [held_out.owners(name, record) for record in records]
        kept[name] = [record for record, found in zip(records, owners, strict=True) if not found]
        leaks[name] = Leaks.count(owners, sum(map(held_out.has_short_copy, records)))
    return kept, leaks
