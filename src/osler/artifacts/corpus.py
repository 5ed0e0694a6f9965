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
from pydantic import BaseModel, ConfigDict, ValidationError

from osler.core.artifact import Artifact
from osler.core.errors import ArtifactError
from osler.core.extras import require
from osler.core.files import atomic, undamaged, write_atomic, write_json

pa, pq, pc = (require(name, "corpus") for name in ("pyarrow", "pyarrow.parquet", "pyarrow.compute"))

ROW_GROUP_BYTES = 8 << 20
"""Text per row group; a reader holds one row group in memory."""
FACT_COLUMNS = ("title", "section", "date", "licence", "patient")
"""Columns that are null where nothing is known. Corpora of earlier versions do not have them."""
SHARD_SCHEMA = pa.schema([(name, pa.string()) for name in ("id", "text", "source", "language", *FACT_COLUMNS)])
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
    ]
)
"""A removed document, a removed passage, or a changed document (`unit`); never its text.

`step` is one of STEPS; `reason` names the setting that decided, such as `length.min_characters`. `characters` is the size of what
was removed, or of a changed document afterwards. A duplicate names the document that was kept. In a row of the step `read` the reason
is a sentence that says why a record could not be read, and `byte` where it begins, if that is known. The step `select` lists records
that the options of a reader leave out.
"""
STEPS = (
    "read",
    "select",
    "licence",
    "repair",
    "rewrite",
    "filter",
    "revisions",
    "exact-duplicates",
    "boilerplate",
    "near-duplicates",
    "decontaminate",
)
"""Steps that remove or change something, in the order in which a document passes them."""
UNITS = ("document", "passage", "document changed")
_LEDGER_ROWS = 65_536
_BATCH_ROWS = 512
_SHARDS, _LEDGER, _CARD, _README = "shards", "ledger.parquet", "card.json", "README.md"


class CorpusText(NamedTuple):
    """One document: its source, its language if the corpus states one, and its text."""

    source: str
    language: str | None
    text: str


class CorpusCounts(BaseModel):
    """Counts over some documents. `read` is `documents` plus everything in `removed`."""

    model_config = ConfigDict(frozen=True)

    read: int = 0
    documents: int = 0
    characters: int = 0
    words: int = 0
    bytes: int = 0
    repaired: int = 0
    removed: dict[str, int] = {}
    """Documents removed, by reason."""
    unreadable: int = 0
    """Records that could not be read; they are not among `read`."""
    languages: dict[str, int] = {}
    """Kept documents by language."""
    licences: dict[str, int] = {}
    """Kept documents by licence."""
    of_patients: int = 0
    """Kept documents whose patient is known."""


class SourceCard(CorpusCounts):
    """One source on the card."""

    documents: int
    words: int
    language: str | None = None
    licence: str | None = None
    weight: float = 1.0
    """How often pretraining reads a document per epoch, on average."""


class SkippedRecord(BaseModel):
    """A record that could not be read: where it is and why."""

    model_config = ConfigDict(frozen=True)

    source: str
    file: str
    row: int | None
    byte: int | None
    reason: str
    fix: str | None = None

    def __str__(self) -> str:
        place = self.file if self.row is None else f"{self.file}:{self.row}"
        byte = "" if self.byte is None else f", byte {self.byte:,}"
        return f"{place}{byte} ({self.source}): {self.reason}"


class CorpusCard(CorpusCounts):
    """Counts of a corpus, in total and by source."""

    shards: int = 0
    words_per_document: dict[str, int] = {}
    """Documents by length: from each power of two to below the next."""
    sources: dict[str, SourceCard]
    skipped: list[SkippedRecord] = []
    """The first records that could not be read; the ledger has all of them."""


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
        return sorted((self.path / _SHARDS).glob("*.parquet"))

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
        """Whether the patient of some documents is known, in the column `patient`."""
        card = self.card
        return card is not None and card.of_patients > 0

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
        """`wanted` documents, evenly spaced, so every source has its share."""
        for batch in self._read(wanted):
            yield from batch

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
    def card(self) -> CorpusCard | None:
        """The card, once the corpus is complete."""
        return _read_card(self.folder)

    def write_shard(self, number: int, tables: Iterable[Any]) -> None:
        """Write a shard, unless it exists already."""
        path = self.folder / _SHARDS / f"shard-{number:05d}.parquet"
        if path.exists():
            return
        with parquet_writer(path, SHARD_SCHEMA, compression="zstd", dictionary=("source", "language")) as writer:
            for group in _regrouped(tables, ROW_GROUP_BYTES, lambda table: pc.binary_length(table["text"]).to_numpy()):
                writer.write_table(group)

    def write_ledger(self, tables: Iterable[Any]) -> None:
        path = self.folder / _LEDGER
        with parquet_writer(path, LEDGER_SCHEMA, compression="zstd", dictionary=("source", "file", "reason")) as writer:
            for group in _regrouped(tables, _LEDGER_ROWS, lambda table: np.ones(table.num_rows, dtype=np.int64)):
                writer.write_table(group)

    def write_card(self, card: CorpusCard, preparation: Sequence[str]) -> None:
        """Write README.md and card.json. card.json comes last: it marks the corpus as complete."""
        write_atomic(self.folder / _README, _readme(card, preparation))
        write_json(self.folder / _CARD, {"shards": card.shards} | card.model_dump(mode="json"))


@contextmanager
def parquet_writer(path: Path, schema: Any, *, compression: str, dictionary: Sequence[str]) -> Iterator[Any]:
    """Open a Parquet writer whose file appears under its name only when it is complete on disk."""
    # Statistics would put the smallest and largest text into the footer, and nothing here uses them.
    options = {"version": "2.6", "compression": compression, "write_statistics": False}
    with (
        atomic(path) as handle,
        pq.ParquetWriter(handle, schema, use_dictionary=list(dictionary), **options) as writer,
    ):
        yield writer


def _regrouped(tables: Iterable[Any], limit: int, weigh: Callable[[Any], NDArray[np.int64]]) -> Iterator[Any]:
    """Cut rows into tables of about `limit` weight each. Where the cuts fall depends on the rows alone."""
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


def _read_card(folder: Path) -> CorpusCard | None:
    path = folder / _CARD
    if not path.is_file():
        return None
    try:
        return CorpusCard.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise ArtifactError(
            "the corpus card is damaged", where=path, fix="Make the corpus again with --force"
        ) from error


def _readme(card: CorpusCard, preparation: Sequence[str]) -> str:
    removed = sum(card.removed.values())
    sources = [
        (
            name,
            source.language or "not stated",
            source.licence or "not stated",
            *(f"{count:,}" for count in (source.read, source.documents, source.words, source.repaired)),
            f"{source.weight:g}",
        )
        for name, source in card.sources.items()
    ]
    removals = [(f"`{reason}`", f"{count:,}") for reason, count in card.removed.items()]
    lengths = [
        (f"{int(low):,} to {2 * int(low) - 1:,}", f"{count:,}") for low, count in card.words_per_document.items()
    ]
    lines = [
        "# Corpus card",
        "",
        f"{card.documents:,} documents, {card.words:,} words and {card.characters:,} characters in {card.shards:,} "
        f"Parquet shard{'' if card.shards == 1 else 's'} (`shards/`, columns `id`, `text`, `source`, `language`).",
        "",
        f"{card.read:,} documents were read and {removed:,} removed; `ledger.parquet` gives the reason for each.",
        "",
        "## Sources",
        "",
        *_table(("source", "language", "licence", "read", "kept", "words", "repaired", "weight"), sources),
        "",
        "## Removed documents",
        "",
        *(_table(("reason", "documents"), removals) if removed else ["No document was removed."]),
        "",
        "## Document length",
        "",
        *_table(("words", "documents"), lengths),
        "",
        "## Preparation",
        "",
        *(f"- {line}" for line in preparation),
        "- Words are separated by whitespace.",
        "",
    ]
    return "\n".join(lines)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in cells]
