"""Tables of annotations for spreadsheets, data frames and databases: one row per entity, as CSV or Parquet.

`entities` has the offsets, text, label and score of each mention, and one column per attribute. `relations` links two entities of a
document by their ids, `labels` has the labels of documents and pairs with their scores, and `documents` has one row per record,
with its metadata in columns. Empty tables are written too, so that programs find all the files they expect.
"""

from __future__ import annotations

import json
import tempfile
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from osler.core.extras import require
from osler.core.files import csv_row
from osler.formats.base import OutputFormat
from osler.formats.output import (
    ATTRIBUTES,
    DISCONTINUOUS,
    LABELS,
    META,
    RELATIONS,
    SCORES,
    SPANS,
    TEXTS,
    VALUES,
    OutputFolder,
    count_lost,
    output_file,
)
from osler.text.document import Document, Record, Relation, Span

_HOLDS = frozenset({SPANS, DISCONTINUOUS, RELATIONS, ATTRIBUTES, LABELS, VALUES, META, SCORES})
_ROWS = 10_000
"""Rows per Parquet row group."""
_Row = list[Any]
_COLUMNS: Mapping[str, Mapping[str, type]] = {
    "documents": {"document": str, "characters": int, "value": float},
    "entities": {
        "document": str,
        "id": str,
        "start": int,
        "end": int,
        "text": str,
        "label": str,
        "score": float,
        "fragments": str,
        "head": str,
    },
    "relations": {"document": str, "id": str, "label": str, "head": str, "tail": str, "score": float},
    "labels": {"document": str, "label": str, "assigned": bool, "score": float},
}


class _RowSpool:
    """Keeps rows on disk until all columns are known: attributes and metadata differ between records."""

    def __init__(self, columns: Mapping[str, type], prefix: str, folder: Path) -> None:
        self._columns = dict(columns)
        self._prefix = prefix
        self._further: set[str] = set()
        # An anonymous file, so that nothing is left behind if the process is killed.
        self._file = tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n", dir=folder)  # noqa: SIM115

    def add(self, row: _Row, further: Mapping[str, str]) -> None:
        self._further.update(further)
        self._file.write(json.dumps([row, dict(further)], ensure_ascii=False) + "\n")

    @property
    def columns(self) -> dict[str, type]:
        """All columns. An additional column whose name is taken gets a prefix."""
        names = (self._named(name) for name in sorted(self._further))
        return {**self._columns, **dict.fromkeys(names, str)}

    def _named(self, name: str) -> str:
        new = name
        while new in self._columns or (new != name and new in self._further):
            new = f"{self._prefix}_{new}"
        return new

    def rows(self) -> Iterator[_Row]:
        order = sorted(self._further)
        self._file.seek(0)
        for line in self._file:
            row, further = json.loads(line)
            yield [*row, *(further.get(name) for name in order)]

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True)
class EntityTables(OutputFormat):
    """A folder with the tables entities, relations, labels and documents. `texts` adds the texts to the last."""

    texts: bool = False

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        self._prepare()
        OutputFolder(path, losses)
        with ExitStack() as stack:
            tables: dict[str, _RowSpool] = {}
            for name, columns in _COLUMNS.items():
                further = {"first": str, "second": str, "text": str} if name == "documents" and self.texts else {}
                prefix = "meta" if name == "documents" else "attribute"
                tables[name] = _RowSpool({**columns, **further}, prefix, path)
                stack.callback(tables[name].close)
            for record in records:
                count_lost(record, losses, holds=_HOLDS)
                losses[TEXTS] += not self.texts
                self._add(record, tables)
            for name, table in tables.items():
                self._table(path / f"{name}{self.suffixes[0]}", table.columns, table.rows())

    def _add(self, record: Record, tables: Mapping[str, _RowSpool]) -> None:
        texts: Sequence[str | None] = (None, None, None)
        if isinstance(record, Document):
            texts = (None, None, record.text)
            for span in record.spans:
                tables["entities"].add(*_entity(record, span))
            for relation in record.relations:
                tables["relations"].add(*_relation(record, relation))
        else:
            texts = (record.first, record.second, None)
        for label in dict.fromkeys((*record.labels, *record.scores)):
            tables["labels"].add([record.id, label, label in record.labels, record.scores.get(label)], {})
        size = sum(len(text) for text in texts if text)
        tables["documents"].add([record.id, size, record.value, *(texts if self.texts else ())], record.meta)

    def _prepare(self) -> None:
        """Check requirements before anything is written."""

    @abstractmethod
    def _table(self, path: Path, columns: Mapping[str, type], rows: Iterator[_Row]) -> None: ...


class CsvTables(EntityTables):
    """Tables as CSV."""

    def _table(self, path: Path, columns: Mapping[str, type], rows: Iterator[_Row]) -> None:
        with output_file(path) as stream:
            stream.write(csv_row(columns).encode())
            for row in rows:
                cells = ("true" if cell is True else "false" if cell is False else cell for cell in row)
                stream.write(csv_row(cells).encode())


class ParquetTables(EntityTables):
    """Tables as Parquet."""

    def _prepare(self) -> None:
        require("pyarrow", "corpus")

    def _table(self, path: Path, columns: Mapping[str, type], rows: Iterator[_Row]) -> None:
        arrow, parquet = require("pyarrow", "corpus"), require("pyarrow.parquet", "corpus")
        types = {str: arrow.string(), int: arrow.int64(), float: arrow.float64(), bool: arrow.bool_()}
        schema = arrow.schema([(name, types[kind]) for name, kind in columns.items()])
        with output_file(path) as stream, parquet.ParquetWriter(stream, schema) as writer:
            while group := list(islice(rows, _ROWS)):
                cells = zip(*group, strict=True)
                arrays = [arrow.array(column, field.type) for column, field in zip(cells, schema, strict=True)]
                writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))


def _entity(document: Document, span: Span) -> tuple[_Row, Mapping[str, str]]:
    pieces = ";".join(f"{start} {end}" for start, end in span.fragments) if span.discontinuous else None
    further = {name: value for name, value in span.attributes.items() if name != "head"}
    text, head = span.text_in(document.text), span.attributes.get("head")
    return [document.id, span.id, span.start, span.end, text, span.label, span.score, pieces, head], further


def _relation(document: Document, relation: Relation) -> tuple[_Row, Mapping[str, str]]:
    row = [document.id, relation.id, relation.label, relation.head, relation.tail, relation.score]
    return row, relation.attributes


CSV = CsvTables("entities_csv", "CSV tables of entities, relations, labels and documents", (".csv",), "folder")
PARQUET = ParquetTables(
    "entities_parquet", "Parquet tables of entities, relations, labels and documents", (".parquet",), "folder"
)
