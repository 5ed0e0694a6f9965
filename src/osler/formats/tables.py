"""CSV and TSV tables: one text or pair of texts per row, with labels or a value, found by column name.

Columns are recognised by their usual names (text or sentence; sentence1 and sentence2; label; labels; score; id or
index) or named in the options; `columns` names the columns of a file without a header. "labels" holds several labels
joined by `separator`; other columns go to meta. CSV has the usual quoting. TSV has none, because the TSV files of
shared tasks contain lone quotation marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osler.core.errors import InputError
from osler.core.parsing import parse_float
from osler.formats.base import Format, SourceReading
from osler.formats.output import LABELS, VALUES, count_lost, output_file, tab_line
from osler.formats.sources import SourceTree, csv_rows
from osler.text.document import Document, Record, TextPair, check_text

_KNOWN = {
    "id": ("id", "index", "pairid", "guid", "row_id"),
    "text": ("text", "sentence", "document", "note"),
    "first": ("first", "sentence1", "premise", "text1", "question1"),
    "second": ("second", "sentence2", "hypothesis", "text2", "question2"),
    "label": ("label", "gold_label"),
    "labels": ("labels",),
    "value": ("value", "score", "similarity", "mean"),
}


@dataclass(frozen=True)
class TableFormat(Format):
    """A table of texts. The options name the columns if their names are unusual."""

    delimiter: str = ","
    id: str = ""
    text: str = ""
    first: str = ""
    second: str = ""
    label: str = ""
    labels: str = ""
    value: str = ""
    separator: str = ";"
    columns: tuple[str, ...] = ()

    def _detect(self, tree: SourceTree) -> bool:
        head = tree.first_lines(f"*{self.suffixes[0]}", 1)
        header = [cell.strip('"') for cell in head[0].split(self.delimiter)] if head else []
        roles = self._roles(header, str(tree.root)) if head else {}
        # In a table with offsets (bsc_tsv), "text" is the text of a mention.
        return ("text" in roles and "start_span" not in header) or {"first", "second"} <= roles.keys()

    def _read(self, reading: SourceReading) -> Iterator[Record]:
        tree = reading.tree
        for name in self._files(tree):
            rows = self._rows(tree, name)
            header = list(self.columns) or next(rows, (0, []))[1]
            roles = self._roles(header, tree.where(name, 1))
            if header and "text" not in roles and not {"first", "second"} <= roles.keys():
                fix = f"Name one with {_setting('text')}, or two with first and second. {_columns(header)}"
                raise InputError("no column with texts", where=tree.where(name, 1), fix=fix)
            for count, (number, row) in enumerate(rows, 1):
                if len(row) != len(header):
                    detail = f"{len(row)} columns instead of {len(header)}"
                    reading.report("malformed-line", detail, name, number)
                    continue
                cells = dict(zip(header, row, strict=True))
                try:
                    yield self._record(cells, roles, count, tree.where(name, number))
                except InputError as error:
                    reading.report("malformed-line", error.problem, name, number)

    def _roles(self, header: list[str], where: str) -> dict[str, str]:
        lower = {column.lower().strip(): column for column in header}
        roles = {}
        for role, usual in _KNOWN.items():
            named = getattr(self, role)
            column = named if named in header else next((lower[name] for name in usual if name in lower), None)
            if named and named not in header:
                fix = f"Name another with {_setting(role)}. {_columns(header)}"
                raise InputError(f"no column {named!r}", where=where, fix=fix)
            if column is not None:
                roles[role] = column
        return roles

    def _rows(self, tree: SourceTree, name: str) -> Iterator[tuple[int, list[str]]]:
        if self.delimiter == "\t":
            yield from ((number, line.split("\t")) for number, line in tree.lines(name) if line)
            return
        yield from csv_rows(tree, name, self.delimiter)

    def _record(self, cells: dict[str, str], roles: dict[str, str], count: int, where: str) -> Record:
        cell = {role: cells[column] for role, column in roles.items()}
        labels = [cell["label"]] if cell.get("label") else []
        labels += [label for label in cell.get("labels", "").split(self.separator) if label]
        used = set(roles.values())
        common: dict[str, Any] = {
            "id": cell.get("id") or str(count),
            "labels": tuple(labels),
            "value": parse_float(cell["value"], where=where) if cell.get("value", "").strip() else None,
            "meta": {key: value for key, value in cells.items() if key not in used and value},
        }
        if "text" in cell:
            return Document(text=check_text(cell["text"], where=where), **common)
        return TextPair(first=cell["first"], second=cell["second"], **common)

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        """Write one table, of texts or of pairs, as the first record decides."""
        kind: type | None = None
        with output_file(path) as stream:
            for record in records:
                if kind is None:
                    kind = type(record)
                    texts = ["text"] if kind is Document else ["first", "second"]
                    stream.write(self._line(["id", *texts, "labels", "value"], losses).encode())
                if type(record) is not kind:
                    losses["records of another kind than the first"] += 1
                    continue
                count_lost(record, losses, holds={LABELS, VALUES})
                losses["labels rewritten"] += sum(not label or self.separator in label for label in record.labels)
                cells = [record.text] if isinstance(record, Document) else [record.first, record.second]
                value = "" if record.value is None else repr(record.value)
                row = [record.id, *cells, self.separator.join(record.labels), value]
                stream.write(self._line(row, losses).encode())

    def _line(self, cells: list[str], losses: Counter[str]) -> str:
        if self.delimiter == "\t":
            return tab_line(cells, losses)
        special = (self.delimiter, '"', "\n", "\r")
        quoted = (f'"{c.replace(chr(34), chr(34) * 2)}"' if any(s in c for s in special) else c for c in cells)
        return self.delimiter.join(quoted) + "\n"


def _setting(option: str) -> str:
    return f"--set read.{option}=NAME (convert) or --set options.{option}=NAME (tasks)"


def list_columns(header: Sequence[str]) -> str | None:
    """List the columns for an error message; None if the first line may be data, which errors must not quote."""
    usual = {name for names in _KNOWN.values() for name in names}
    short = all(len(column) <= 30 and len(column.split()) <= 3 for column in header)
    named = usual & {column.lower() for column in header} or all(map(str.isidentifier, header))
    return f"Columns: {', '.join(header)}" if short and named else None


def _columns(header: list[str]) -> str:
    hidden = (
        "The first line may not be a header, so it is not shown; the option columns names the columns of such a file"
    )
    return list_columns(header) or hidden


CSV = TableFormat("csv", "CSV with a header: texts or pairs, labels, values", (".csv",))
TSV = TableFormat("tsv", "TSV with a header, no quoting: texts or pairs, labels, values", (".tsv",), delimiter="\t")
