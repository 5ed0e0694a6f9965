"""The corpus artifact: Parquet shards of documents, a card, and a ledger of removed documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osler.artifacts.corpus_card import CorpusCard, SourceCard, readme
from osler.core.artifact import Artifact, read_model
from osler.core.extras import require
from osler.core.files import atomic, fingerprint, undamaged, write_atomic, write_json
from osler.report.page import Page

pa, pq, pc = (require(name, "corpus") for name in ("pyarrow", "pyarrow.parquet", "pyarrow.compute"))

ROW_GROUP_BYTES = 8 << 20
"""Text per row group; a reader holds one row group in memory."""
FACT_COLUMNS = ("title", "section", "date", "licence", "patient")
"""Columns that are null if unknown. Corpora of earlier versions lack them."""
DENSITY = pa.field("density", pa.float32())
"""Share of a document's words that belong to terms of a list; null if the corpus was made without a list."""
SHARD_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "text", "source", "language", *FACT_COLUMNS, "file")),
        ("row", pa.int64()),
        DENSITY,
    ]
)
LEDGER_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("file", pa.string()),
        ("row", pa.int64()),
        ("byte", pa.int64()),
        ("id", pa.string()),
        ("step", pa.string()),
        ("reason", pa.string()),
        ("unit", pa.string()),
        ("characters", pa.int64()),
        ("kept_id", pa.string()),
        ("kept_source", pa.string()),
        ("jaccard", pa.float64()),
        ("share", pa.float64()),
    ]
)
"""A removed document, a removed passage, or a changed document (`unit`), never with its text.

`step` is one of STEPS; `reason` names the setting that decided, such as `length.min_characters`. `characters` is the size of
what was removed, or of a changed document after the change. A duplicate names the document that was kept. A contaminated
document names the held-out record instead, and `share` is the fraction of the shorter one that both have in common. In the step
`read`, `reason` is a sentence that says why a record could not be read, and `byte` is where it begins, if known. The step
`select` lists records that the options of a reader exclude.
"""
STEPS = (
    "read",
    "select",
    "licence",
    "repair",
    "rewrite",
    "filter",
    "revisions",
    "deidentify",
    "exact-duplicates",
    "boilerplate",
    "near-duplicates",
    "decontaminate",
)
"""Steps that remove or change something, in pipeline order."""


def step_order(step: str) -> int:
    """Return the place of a step in the pipeline; unknown steps come last."""
    return STEPS.index(step) if step in STEPS else len(STEPS)


_REPEATED = ("source", "language", "section", "licence", "file")
_LEDGER_ROWS = 65_536
_BATCH_ROWS = 512
_SHARDS, _LEDGER, _CARD, _README, _REPORT = "shards", "ledger.parquet", "card.json", "README.md", "report.html"


class CorpusText(NamedTuple):
    """One document: its source, its language if the corpus states one, and its text."""

    source: str
    language: str | None
    text: str


@dataclass(frozen=True, slots=True)
class KeptDocument:
    """A document of the corpus with all its metadata. `file` and `row` say where it was read."""

    shard: str
    id: str
    text: str
    source: str
    language: str | None = None
    title: str | None = None
    section: str | None = None
    date: str | None = None
    licence: str | None = None
    patient: str | None = None
    file: str | None = None
    row: int | None = None
    density: float | None = None


@dataclass(frozen=True)
class RowGroup:
    """A row group of a shard. It can be pickled and sent to a worker process."""

    shard: Path
    index: int
    bytes: int
    """Uncompressed size."""

    def batches(self, columns: Sequence[str], rows: int = _BATCH_ROWS) -> Iterator[Any]:
        """Arrow record batches of at most `rows` documents."""
        with undamaged(self.shard), pq.ParquetFile(self.shard) as file:
            yield from file.iter_batches(rows, row_groups=[self.index], columns=list(columns), use_threads=False)

    def texts(self) -> list[str]:
        return [text for batch in self.batches(["text"]) for text in batch.column("text").to_pylist()]


@dataclass(frozen=True)
class Corpus(Artifact):
    """A finished corpus."""

    kind: ClassVar = "corpus"

    @property
    def documents(self) -> int:
        """Number of documents."""
        return int(self.counts.get("documents", 0))

    @property
    def shards(self) -> list[Path]:
        """Parquet files, in document order."""
        return _shards(self.path)

    @property
    def ledger_path(self) -> Path:
        """Path of the ledger. Read it with `artifacts.ledger.Ledger`."""
        return self.path / _LEDGER

    @property
    def card(self) -> CorpusCard | None:
        """The card, or None if the corpus has no card."""
        return _read_card(self.path)

    @property
    def sources(self) -> dict[str, SourceCard]:
        """Sources on the card; empty if the corpus has no card."""
        card = self.card
        return card.sources if card else {}

    @property
    def has_patients(self) -> bool:
        """Whether the patient is known for some documents (column `patient`)."""
        card = self.card
        return card is not None and card.of_patients > 0

    @cached_property
    def has_density(self) -> bool:
        """Whether the term density of the documents is known (column `density`)."""
        for path in self.shards[:1]:
            with undamaged(path), pq.ParquetFile(path) as file:
                if DENSITY.name in file.schema_arrow.names:
                    first = next(file.iter_batches(1, columns=[DENSITY.name], use_threads=False), None)
                    return first is not None and first.column(0).null_count == 0
        return False

    @cached_property
    def source_names(self) -> tuple[str, ...]:
        """Sources of all documents, in order of first appearance."""
        names: dict[str, None] = {}
        for path in self.shards:
            with undamaged(path), pq.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=1 << 16, columns=["source"], use_threads=False):
                    names |= dict.fromkeys(pc.unique(batch.column("source")).to_pylist())
        return tuple(names)

    @property
    def source_weights(self) -> dict[str, float]:
        """Weight of every source; 1 if the corpus has no card."""
        card = self.card
        if card is None:
            return dict.fromkeys(self.source_names, 1.0)
        return {name: source.weight for name, source in card.sources.items()}

    def row_groups(self) -> list[RowGroup]:
        """Row groups of all shards, in document order."""
        groups = []
        for path in self.shards:
            with undamaged(path):
                metadata = pq.read_metadata(path)
            sizes = (metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
            groups += [RowGroup(path, index, size) for index, size in enumerate(sizes)]
        return groups

    def batches(self) -> Iterator[list[CorpusText]]:
        """Every document, in order, up to 512 at a time."""
        return self._read(self.documents)

    def sample(self, wanted: int) -> Iterator[CorpusText]:
        """Yield `wanted` evenly spaced documents, so that every source gets its share."""
        for batch in self._read(wanted):
            yield from batch

    def find(self, ids: Iterable[str]) -> Iterator[KeptDocument]:
        """Yield the documents with these ids, in order. Documents that share an id are all included."""
        wanted = pa.array(sorted(set(ids)), pa.string())
        for path in self.shards:
            with undamaged(path), pq.ParquetFile(path) as file:
                columns = [name for name in SHARD_SCHEMA.names if name in file.schema_arrow.names]
                for index in range(file.num_row_groups):
                    # Most row groups have none of them, so skip their text.
                    here = pc.is_in(file.read_row_group(index, ["id"], use_threads=False)["id"], wanted)
                    if pc.any(here).as_py():
                        rows = file.read_row_group(index, columns, use_threads=False).filter(here)
                        yield from (KeptDocument(path.name, **row) for row in rows.to_pylist())

    def _read(self, wanted: int) -> Iterator[list[CorpusText]]:
        total = self.documents
        first = 0
        for path in self.shards:
            with undamaged(path), pq.ParquetFile(path) as file:
                for batch in file.iter_batches(_BATCH_ROWS, columns=list(CorpusText._fields), use_threads=False):
                    rows = batch.num_rows
                    if wanted < total:
                        numbers = np.arange(first, first + rows, dtype=np.int64)
                        # Document k is chosen if k * wanted / total has passed another integer since document k - 1.
                        batch = batch.filter(pa.array(numbers * wanted // total != (numbers - 1) * wanted // total))
                    columns = (batch.column(name).to_pylist() for name in CorpusText._fields)
                    yield [CorpusText(*row) for row in zip(*columns, strict=True)]
                    first += rows


@dataclass(frozen=True)
class CorpusWriter:
    """Writes the files of a corpus folder. The same documents give the same bytes."""

    folder: Path

    @property
    def ledger_path(self) -> Path:
        """Path of the ledger, once written."""
        return self.folder / _LEDGER

    @property
    def card(self) -> CorpusCard | None:
        """The card, once the corpus is complete."""
        return _read_card(self.folder)

    def write_shard(self, number: int, tables: Iterable[Any]) -> None:
        """Write a shard, unless it exists already."""
        path = self.folder / _SHARDS / f"shard-{number:05d}.parquet"
        if path.exists():
            return
        with parquet_writer(path, SHARD_SCHEMA, compression="zstd", dictionary=_REPEATED) as writer:
            for group in _regrouped(tables, ROW_GROUP_BYTES, lambda table: pc.binary_length(table["text"]).to_numpy()):
                writer.write_table(group)

    def write_ledger(self, tables: Iterable[Any]) -> None:
        path = self.folder / _LEDGER
        with parquet_writer(path, LEDGER_SCHEMA, compression="zstd", dictionary=("source", "file", "reason")) as writer:
            for group in _regrouped(tables, _LEDGER_ROWS, lambda table: np.ones(table.num_rows, dtype=np.int64)):
                writer.write_table(group)

    def write_report(self, page: Page) -> None:
        page.write(self.folder / _REPORT)

    def write_card(self, card: CorpusCard, preparation: Sequence[str]) -> None:
        """Write README.md and card.json. card.json comes last: it marks the corpus as complete."""
        card = card.model_copy(update={"sha256": fingerprint(_shards(self.folder))})
        write_atomic(self.folder / _README, readme(card, SHARD_SCHEMA.names, preparation))
        write_json(self.folder / _CARD, {"shards": card.shards} | card.model_dump(mode="json"))


@contextmanager
def parquet_writer(path: Path, schema: Any, *, compression: str, dictionary: Sequence[str]) -> Iterator[Any]:
    """Open a Parquet writer. The file gets its name only once it is complete on disk."""
    # Statistics would put the smallest and largest text into the footer, and nothing here uses them.
    options = {"version": "2.6", "compression": compression, "write_statistics": False}
    with (
        atomic(path) as handle,
        pq.ParquetWriter(handle, schema, use_dictionary=list(dictionary), **options) as writer,
    ):
        yield writer


def _regrouped(tables: Iterable[Any], limit: int, weigh: Callable[[Any], NDArray[np.int64]]) -> Iterator[Any]:
    """Cut rows into tables of about `limit` weight each. The cuts depend on the rows alone."""
    held: list[Any] = []
    room = limit
    for table in tables:
        rest = table
        while rest.num_rows:
            weights = np.cumsum(weigh(rest))
            count = int(np.searchsorted(weights, room)) + 1
            head, rest = rest.slice(0, count), rest.slice(count)
            held.append(head)
            room -= int(weights[head.num_rows - 1])
            if room <= 0:
                yield pa.concat_tables(held).combine_chunks()
                held, room = [], limit
    if held:
        yield pa.concat_tables(held).combine_chunks()


def _shards(folder: Path) -> list[Path]:
    return sorted((folder / _SHARDS).glob("*.parquet"))


def _read_card(folder: Path) -> CorpusCard | None:
    path = folder / _CARD
    if not path.is_file():
        return None
    return read_model(CorpusCard, path, problem="the corpus card is damaged", fix="Make the corpus again with --force")
