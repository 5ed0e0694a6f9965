"""Parquet files that are the same bytes whenever their rows are the same, and that exist whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osler.core.errors import writing
from osler.core.extras import require
from osler.core.files import sync_folder

GROUP_BYTES = 8 << 20
"""How much a row group holds: what a reader has in memory at a time."""


@contextmanager
def parquet_writer(path: Path, schema: Any, *, compression: str, dictionary: Sequence[str]) -> Iterator[Any]:
    """A Parquet writer whose file appears under its name only when all of it is on disk."""
    parquet = require("pyarrow.parquet", "corpus")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "wb") as handle:
                with parquet.ParquetWriter(
                    handle,
                    schema,
                    version="2.6",
                    compression=compression,
                    use_dictionary=list(dictionary),
                    # Statistics would put the smallest and largest text into the footer, and nothing here uses them.
                    write_statistics=False,
                ) as writer:
                    yield writer
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)


def read_columns(path: Path, *columns: str) -> Any:
    """Some columns of a Parquet file, as an Arrow table."""
    return require("pyarrow.parquet", "corpus").read_table(path, columns=list(columns), use_threads=False)


def regrouped(tables: Iterable[Any], limit: int, weigh: Callable[[Any], NDArray[np.int64]]) -> Iterator[Any]:
    """The rows of some tables in new tables of about `limit` weight, whose borders depend on the rows alone."""
    concatenate = require("pyarrow", "corpus").concat_tables
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
                yield concatenate(held).combine_chunks()
                held, room = [], limit
    if held:
        yield concatenate(held).combine_chunks()


class RowBuffer:
    """Collects rows and writes them as one row group each time they weigh enough."""

    def __init__(self, writer: Any, schema: Any) -> None:
        self._pyarrow = require("pyarrow", "corpus")
        self._writer = writer
        self._schema = schema
        self._rows: list[tuple[Any, ...]] = []
        self._weight = 0

    def add(self, row: tuple[Any, ...], weight: int) -> None:
        """Take one row, its values in the order of the schema."""
        self._rows.append(row)
        self._weight += weight
        if self._weight >= GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        if not self._rows:
            return
        columns = [
            self._pyarrow.array(values, type=field.type)
            for values, field in zip(zip(*self._rows, strict=True), self._schema, strict=True)
        ]
        self._writer.write_table(self._pyarrow.Table.from_arrays(columns, schema=self._schema))
        self._rows = []
        self._weight = 0
