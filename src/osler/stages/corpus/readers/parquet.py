"""Parquet: one document per row, with text and id in named columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from osler.core.errors import InputError
from osler.core.extras import require
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import FileRange, InputFile, RawDocument, joined, named_facts
from osler.stages.corpus.opening import open_bytes, reading

_ROWS = 64


class ParquetReader:
    """Reads `.parquet` files. A range is a range of row groups; a null text is an empty document."""

    endings = (".parquet",)
    options = None

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FileRange]:
        with _opened(file.path) as table:
            groups = [table.metadata.row_group(index) for index in range(table.num_row_groups)]
        ranges = []
        start = held = rows = first = 0
        for index, group in enumerate(groups):
            held += group.total_byte_size
            rows += group.num_rows
            if held >= size or index == len(groups) - 1:
                ranges.append(FileRange(file, start, index + 1, first + 1))
                start, held, first = index + 1, 0, rows
        return ranges

    def read(self, file_range: FileRange, source: CorpusSource) -> Iterator[RawDocument]:
        path = file_range.file.path
        with _opened(path) as table:
            names = table.schema_arrow.names
            _check_columns(table.schema_arrow, source, path)
            groups = range(file_range.start, file_range.stop)
            wanted = dict.fromkeys([*source.texts(), source.id_field, *source.facts.values()])
            columns = [name for name in wanted if name in names]
            row = file_range.first_row
            for batch in table.iter_batches(_ROWS, row_groups=groups, columns=columns, use_threads=False):
                try:
                    records = batch.to_pylist()
                except UnicodeDecodeError:
                    raise InputError(
                        f"a text or an id in rows {row} to {row + batch.num_rows - 1} is not valid UTF-8",
                        where=path,
                        fix="Write the file again as UTF-8",
                    ) from None
                for record in records:
                    text, key = joined(record[name] for name in source.texts()), record.get(source.id_field)
                    facts = named_facts(record, source.facts)
                    yield RawDocument(row, text, None if key is None else str(key), facts)
                    row += 1


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    pyarrow = require("pyarrow", "corpus")
    parquet = require("pyarrow.parquet", "corpus")
    with reading(path):
        try:
            with open_bytes(path) as handle, parquet.ParquetFile(handle) as table:
                yield table
        except pyarrow.ArrowException:
            raise InputError("not a valid Parquet file", where=path, fix="Write the file again") from None


def _check_columns(schema: Any, source: CorpusSource, path: Path) -> None:
    types = require("pyarrow", "corpus").types
    lacking = next((f"{fact} = {name!r}" for fact, name in source.facts.items() if name not in schema.names), None)
    if lacking is not None:
        raise InputError(
            f"the file has no such column: {lacking}", where=path, fix="Correct the table `facts` of the source"
        )
    for name in source.texts():
        if name not in schema.names:
            problem = f"the file has no column {name!r}"
        else:
            kind = schema.field(name).type
            kind = kind.value_type if types.is_dictionary(kind) else kind
            if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
                continue
            problem = f"column {name!r} holds {kind}, not strings"
        fix = "Name the column with the text: --text-field, or text_field in the source"
        raise InputError(problem, where=path, fix=fix)


READER = ParquetReader()
