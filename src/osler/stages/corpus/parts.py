"""The working files of a part: its kept documents, ledger rows and the revisions it has read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from osler.artifacts.corpus import FACT_COLUMNS, LEDGER_SCHEMA, ROW_GROUP_BYTES, parquet_writer
from osler.core.extras import require

pa, pq = (require(name, "corpus") for name in ("pyarrow", "pyarrow.parquet"))

DIGEST_BYTES = 16
ROW_BYTES = 64
"""Estimated size of a row without its text."""

_POSITION = pa.field("position", pa.int64())  # of the document among all documents of the part
LOSS_SCHEMA = pa.schema([_POSITION, *LEDGER_SCHEMA, ("fix", pa.string())])
"""Ledger rows, with the position of the document and the fix for a record that cannot be read."""
ORIGIN = ("position", "source", "file", "row", "id")
KEPT_SCHEMA = pa.schema(
    [
        *(LOSS_SCHEMA.field(name) for name in ORIGIN),
        ("language", pa.string()),
        *((name, pa.string()) for name in FACT_COLUMNS),
        ("text", pa.string()),
        ("digest", pa.binary(DIGEST_BYTES)),
        ("bytes", pa.int64()),
        ("characters", pa.int64()),
        ("words", pa.int64()),
        ("sentences", pa.int64()),
        ("repaired", pa.bool_()),
    ]
)
REVISION_SCHEMA = pa.schema([(name, pa.int64()) for name in ("source", "record", "number", "sequence", "position")])
"""Revisions of the records of a source, in input order. Documents with the same `sequence` belong to one revision; a withdrawn
one has position -1."""


class StepEffect(NamedTuple):
    """What one step did to a document: the middle columns of a ledger row."""

    step: str
    reason: str
    unit: str
    characters: int | None


def ledger_row(
    position: int,
    source: str,
    file: str,
    row: int | None,
    id_: str,
    effect: StepEffect,
    *,
    byte: int | None = None,
    fix: str | None = None,
) -> tuple[Any, ...]:
    """Return a row of LOSS_SCHEMA about a document that is not compared with another one."""
    return (position, source, file, row, byte, id_, *effect, None, None, None, None, fix)


class RowWriter:
    """Buffers rows and writes them as row groups."""

    def __init__(self, writer: Any, schema: Any) -> None:
        self._writer = writer
        self._schema = schema
        self._rows: list[tuple[Any, ...]] = []
        self._size = 0

    def add(self, row: tuple[Any, ...], size: int) -> None:
        self._rows.append(row)
        self._size += size
        if self._size >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            columns = zip(zip(*self._rows, strict=True), self._schema, strict=True)
            arrays = [pa.array(values, type=field.type) for values, field in columns]
            self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
            self._rows, self._size = [], 0


@contextmanager
def part_writer(path: Path, schema: Any) -> Iterator[RowWriter]:
    """Open a file of a part for writing row by row."""
    dictionary = {"source", "file", "licence", "section", "language", "step", "reason", "unit"} & set(schema.names)
    with parquet_writer(path, schema, compression="lz4", dictionary=sorted(dictionary)) as file:
        rows = RowWriter(file, schema)
        yield rows
        rows.flush()


def row_groups(path: Path, *columns: str) -> Iterator[tuple[Any, int]]:
    """Yield the row groups of a file, each with the number of its first row."""
    with pq.ParquetFile(path) as file:
        start = 0
        for index in range(file.num_row_groups):
            rows = file.read_row_group(index, columns=list(columns), use_threads=False)
            yield rows.select(columns), start
            start += rows.num_rows


@dataclass(frozen=True)
class RewrittenPart:
    """The kept documents of a part, and the files that a step writes when it changes them."""

    number: int
    documents: Path
    folder: Path

    @property
    def kept(self) -> Path:
        return self.folder / f"kept-{self.number:06d}.parquet"

    @property
    def removed(self) -> Path:
        return self.folder / f"removed-{self.number:06d}.parquet"

    def rewrite(self, change: Callable[[int, dict[str, Any]], Iterable[StepEffect]]) -> None:
        """Write the documents again, and the ledger rows of what changed, unless an earlier run did.

        `change` gets the number and the row of a document. It changes the row in place and returns its effects.
        """
        if self.kept.exists():
            return
        # The file of kept documents is closed last: if it exists, the part is complete.
        with part_writer(self.kept, KEPT_SCHEMA) as kept, part_writer(self.removed, LOSS_SCHEMA) as removed:
            for rows, first in row_groups(self.documents, *KEPT_SCHEMA.names):
                for number, row in enumerate(rows.to_pylist(), first):
                    position, source, file, place, id_ = (row[name] for name in ORIGIN)
                    for effect in change(number, row):
                        removed.add(ledger_row(position, source, file, place, id_, effect), ROW_BYTES)
                    kept.add(tuple(row.values()), row["bytes"] + ROW_BYTES)
