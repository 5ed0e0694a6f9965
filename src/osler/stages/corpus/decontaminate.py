"""Find documents of a corpus that share text with the held-out documents of prepared tasks.

Texts are compared by their runs of nine words, without case, accents and punctuation. A document is contaminated if it and
one held-out text share at least four runs that make up 30 % of the shorter of the two, or at least 32 runs.

Measured on 500 MB of biomedical text in three languages against the test documents of 26 public tasks: copies share 30 % and
more of the shorter text, those with another header or a few changed words included. Below that is wording that many texts
have in common: half of the French medicine leaflets share 8 to 23 runs with leaflets of a test set, but at most 18 % of one.
At least four, because three runs can be a third of a short sentence ("there were no significant differences between the two groups").
"""

from __future__ import annotations

import glob
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osler.artifacts.corpus import parquet_writer
from osler.artifacts.task_folder import TaskFolder
from osler.core.artifact import MANIFEST, Manifest
from osler.core.errors import InputError
from osler.core.extras import require
from osler.core.files import atomic
from osler.core.logs import get_logger
from osler.core.processes import Pool
from osler.stages.corpus.config import Decontaminate
from osler.text.document import Document, Record
from osler.text.ngrams import Hashes, HashTable, blocks, ngrams

pa, pq = (require(name, "corpus") for name in ("pyarrow", "pyarrow.parquet"))
log = get_logger("osler.corpus")

_BATCH = 256
_TEXTS_SCHEMA = pa.schema(
    [("task", pa.string()), ("split", pa.string()), ("record", pa.string()), ("runs", pa.int64())]
)
_MATCH = np.dtype([("row", "<i8"), ("text", "<i8"), ("shared", "<i8"), ("share", "<f8")])


def task_folders(options: Decontaminate) -> list[TaskFolder]:
    """Return the tasks, in an order that does not depend on their paths."""
    found = {path.resolve(): None for given in options.tasks for path in _task_paths(given)}
    folders = [TaskFolder.open(path) for path in found]
    return sorted(folders, key=lambda folder: (folder.card.name, folder.artifact.manifest.digest))


def tasks_digest(options: Decontaminate) -> str:
    """Return the hash of the tasks that a corpus records among its parents."""
    digests = [folder.artifact.manifest.digest for folder in task_folders(options)]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Contaminated:
    """A contaminated document, and the held-out record with the largest overlap."""

    document: int
    """Row of the document, counted over all files."""
    task: str
    split: str
    record: str
    shared: int
    """Number of shared runs of words."""
    share: float
    """Their share of the runs of the shorter text."""


def contaminated(
    files: Sequence[Path], keep: Sequence[NDArray[np.bool_]], options: Decontaminate, folder: Path, pool: Pool
) -> list[Contaminated]:
    """Find the contaminated documents among those that `keep` marks in each Parquet file, in order.

    `folder` holds the results so far, from which an interrupted search resumes.
    """
    index = HeldOutIndex(folder / "held_out")
    index.write(options)
    scans = [
        _Scan(file, mask, options, index, folder / f"contaminated-{number:06d}.npy")
        for number, (file, mask) in enumerate(zip(files, keep, strict=True))
    ]
    pool.run_all(_scan, scans, label="corpus: decontaminate")
    texts = index.texts()
    found: list[Contaminated] = []
    reached: set[int] = set()
    before = 0
    for scan in scans:
        matches = np.load(scan.out)
        reached.update(matches["text"].tolist())
        # Best match of a document first; ties go to the first task.
        order = np.lexsort((matches["text"], -matches["shared"], -matches["share"], matches["row"]))
        _, first = np.unique(matches["row"][order], return_index=True)
        for row, text, shared, share in matches[order[first]].tolist():
            task, split, record = texts[text]
            found.append(Contaminated(before + row, task, split, record, shared, share))
        before += len(scan.keep)
    records = Counter(name[:2] for name in dict.fromkeys(texts))
    copied = Counter(name[:2] for name in dict.fromkeys(texts[number] for number in sorted(reached)))
    for (task, split), count in records.items():
        log.event("corpus.held_out", task=task, split=split, records=count, in_corpus=copied[task, split])
    return found


@dataclass(frozen=True)
class HeldOutIndex:
    """The runs of words of all held-out texts: sorted hashes on disk, each with the texts it occurs in."""

    folder: Path

    def write(self, options: Decontaminate) -> None:
        """Write the index, unless an earlier run did."""
        if self._texts.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        names: list[tuple[str, str, str]] = []
        hashes, owners = [np.zeros(0, dtype=np.uint64)], [np.zeros(0, dtype=np.int32)]
        for more, texts in _held_out_texts(options):
            found, runs = ngrams(texts, options.words)
            hashes.append(found)
            owners.append(np.repeat(np.arange(len(names), len(names) + len(texts), dtype=np.int32), runs))
            names += more
        hash_, owner = np.concatenate(hashes), np.concatenate(owners)
        order = np.lexsort((owner, hash_))
        hash_, owner = hash_[order], owner[order]
        new = np.ones(len(hash_), dtype=np.bool_)
        new[1:] = (hash_[1:] != hash_[:-1]) | (owner[1:] != owner[:-1])
        hash_, owner = hash_[new], owner[new]
        if not len(hash_):
            raise InputError(
                f"the tasks have no text of {options.words} words in the splits {', '.join(options.splits)}",
                where="decontaminate.tasks",
                fix="Check decontaminate.splits",
            )
        distinct, first = np.unique(hash_, return_index=True)
        for array, path in (
            (distinct, self._hashes),
            (np.append(first, len(hash_)), self._first),
            (owner, self._owners),
        ):
            with atomic(path) as handle:
                np.save(handle, array)
        # This file is written last: if it exists, the index is complete.
        columns = [*zip(*names, strict=True), np.bincount(owner, minlength=len(names))]
        with parquet_writer(self._texts, _TEXTS_SCHEMA, compression="zstd", dictionary=("task", "split")) as writer:
            writer.write_table(pa.Table.from_arrays([pa.array(values) for values in columns], schema=_TEXTS_SCHEMA))

    def texts(self) -> list[tuple[str, str, str]]:
        """Return the task, split and record id of every text."""
        table = pq.read_table(self._texts, columns=["task", "split", "record"], use_threads=False)
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    @property
    def _texts(self) -> Path:
        return self.folder / "texts.parquet"

    @property
    def _hashes(self) -> Path:
        return self.folder / "hashes.npy"

    @property
    def _first(self) -> Path:
        return self.folder / "first.npy"

    @property
    def _owners(self) -> Path:
        return self.folder / "owners.npy"


class _Lookup:
    """An index in memory."""

    def __init__(self, index: HeldOutIndex) -> None:
        self.runs = pq.read_table(index._texts, columns=["runs"], use_threads=False)["runs"].to_numpy()
        self._table = HashTable(np.load(index._hashes, mmap_mode="r"))
        self._first = np.load(index._first, mmap_mode="r")
        self._owners = np.load(index._owners, mmap_mode="r")

    def shared(
        self, hashes: Hashes, document: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return pairs of documents and texts that share runs, and how many distinct runs they share."""
        found, places = self._table.find(hashes)
        # Count a run once per document.
        rows, places = _distinct_pairs(document[found], places)[:2]
        first, count = self._first[places], self._first[places + 1] - self._first[places]
        owners = self._owners[np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())]
        return _distinct_pairs(np.repeat(rows, count), owners.astype(np.int64))


def _distinct_pairs(
    first: NDArray[np.int64], second: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct pairs of numbers, sorted, and how often each occurs."""
    size = int(second.max(initial=0)) + 1
    pairs, counts = np.unique(first * size + second, return_counts=True)
    return pairs // size, pairs % size, counts


@dataclass(frozen=True)
class _Scan:
    """One file of the corpus, and where its matches are written."""

    file: Path
    keep: NDArray[np.bool_]
    options: Decontaminate
    index: HeldOutIndex
    out: Path


def _scan(scan: _Scan) -> None:
    """Write the matches of one file, unless an earlier run did."""
    if scan.out.exists():
        return
    lookup = _Lookup(scan.index)
    matches = [
        np.zeros(0, dtype=_MATCH),
        *(_matches(rows, texts, lookup, scan.options) for rows, texts in blocks(_documents(scan))),
    ]
    with atomic(scan.out) as handle:
        np.save(handle, np.concatenate(matches))


def _documents(scan: _Scan) -> Iterator[tuple[int, str]]:
    """Yield row and text of each document to search."""
    row = 0
    with pq.ParquetFile(scan.file) as file:
        for batch in file.iter_batches(_BATCH, columns=["text"], use_threads=False):
            for text in batch.column("text").to_pylist():
                if scan.keep[row]:
                    yield row, text
                row += 1


def _matches(rows: Sequence[int], texts: Sequence[str], lookup: _Lookup, options: Decontaminate) -> NDArray[Any]:
    """Return the pairs of a document and a held-out text that share too much."""
    hashes, runs = ngrams(texts, options.words)
    number, held_out, shared = lookup.shared(hashes, np.repeat(np.arange(len(texts)), runs))
    share = shared / np.minimum(runs[number], lookup.runs[held_out])
    too_much = ((shared >= options.min_shared) & (share >= options.min_share)) | (shared >= options.max_shared)
    found = np.zeros(int(too_much.sum()), dtype=_MATCH)
    columns = (np.array(rows, dtype=np.int64)[number], held_out, shared, np.minimum(share, 1.0))
    for name, values in zip(_MATCH.names or (), columns, strict=True):
        found[name] = values[too_much]
    return found


def _held_out_texts(options: Decontaminate) -> Iterator[tuple[list[tuple[str, str, str]], list[str]]]:
    """Yield batches of held-out texts, with task, split and record id of each."""
    for folder in task_folders(options):
        for split in _held_out_splits(folder, options):
            names: list[tuple[str, str, str]] = []
            texts: list[str] = []
            for record in folder.stream(split):
                own = _texts(record)
                texts += own
                names += [(folder.card.name, split, record.id)] * len(own)
                if len(texts) >= _BATCH:
                    yield names, texts
                    names, texts = [], []
            yield names, texts


def _held_out_splits(folder: TaskFolder, options: Decontaminate) -> list[str]:
    """Return the wanted splits that a task has, or dev if it has none: such a task is scored there, as CodiEsp is."""
    return [split for split in folder.splits if split in options.splits] or [
        split for split in folder.splits if split == "dev"
    ]


def _texts(record: Record) -> list[str]:
    """Return the text of a document, or both of a pair: either alone would leak the pair."""
    return [record.text] if isinstance(record, Document) else [record.first, record.second]


def _task_paths(given: str) -> list[Path]:
    """List the folders of prepared tasks at, below or matched by a path."""
    path = Path(given).expanduser()
    roots = (
        [path]
        if path.exists() or not glob.has_magic(given)
        else sorted(map(Path, glob.glob(str(path), recursive=True)))
    )
    found = [
        manifest.parent
        for root in roots
        for manifest in ([root / MANIFEST] if (root / MANIFEST).is_file() else sorted(root.rglob(MANIFEST)))
        if Manifest.read(manifest).kind == "task"
    ]
    if not found:
        raise InputError(
            "there is no prepared task",
            where=given,
            fix="Make one with `osler tasks prepare`, or check decontaminate.tasks",
        )
    return found
