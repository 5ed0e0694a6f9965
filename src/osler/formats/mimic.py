"""MIMIC-III NOTEEVENTS: one large CSV of notes, read row by row.

Column names may be in either case (database exports are lower-case). Notes marked as errors (ISERROR = 1) are left out
unless `errors` is set. Trailing spaces of categories are removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from osler.core.errors import InputError
from osler.formats.base import Format, SourceReading
from osler.formats.output import documents, output_file
from osler.formats.sources import SourceTree, csv_rows
from osler.text.document import Document, Record

HEADER = (
    b'"ROW_ID","SUBJECT_ID","HADM_ID","CHARTDATE","CHARTTIME","STORETIME",'
    b'"CATEGORY","DESCRIPTION","CGID","ISERROR","TEXT"\n'
)
_COLUMNS = [column.strip('"') for column in HEADER.decode().strip().split(",")]
CATEGORIES = (
    "Case Management",
    "Consult",
    "Discharge summary",
    "ECG",
    "Echo",
    "General",
    "Nursing",
    "Nursing/other",
    "Nutrition",
    "Pharmacy",
    "Physician",
    "Radiology",
    "Rehab Services",
    "Respiratory",
    "Social Work",
)
"""Values of CATEGORY, without the trailing space that some have in the table."""
_META = {
    "SUBJECT_ID": "patient",
    "HADM_ID": "admission",
    "CHARTDATE": "date",
    "CATEGORY": "category",
    "DESCRIPTION": "description",
    "ISERROR": "error",
}


@dataclass(frozen=True)
class Mimic(Format):
    """The table of notes."""

    errors: bool = False

    def _detect(self, tree: SourceTree) -> bool:
        heads = [line.upper() for line in tree.first_lines("*noteevents*.csv", 1)]
        return any("ROW_ID" in head and "TEXT" in head for head in heads)

    def _read(self, reading: SourceReading) -> Iterator[Document]:
        tree = reading.tree
        for name in tree.names("*noteevents*.csv") or list(tree):
            rows = csv_rows(tree, name)
            header = [column.strip().upper() for column in next(rows, (1, []))[1]]
            if not {"ROW_ID", "TEXT"} <= set(header):
                raise InputError("no columns ROW_ID and TEXT", where=tree.where(name, 1), fix="Give NOTEEVENTS.csv")
            for number, row in rows:
                if len(row) != len(header):
                    detail = f"{len(row)} columns instead of {len(header)}"
                    reading.report("malformed-line", detail, name, number)
                    continue
                cells = dict(zip(header, row, strict=True))
                if self.errors or not is_error(cells.get("ISERROR", "")):
                    meta = {_META[key]: cell.strip() for key, cell in cells.items() if key in _META}
                    kept = {key: cell for key, cell in meta.items() if cell}
                    yield Document(cells["ROW_ID"].strip(), cells["TEXT"], meta=kept)

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        with output_file(path) as stream:
            stream.write(HEADER)
            for document in documents(records, losses, holds=(), meta=_META.values()):
                cells = {key: document.meta.get(name, "") for key, name in _META.items()}
                stream.write(line(cells | {"ROW_ID": document.id, "TEXT": document.text}))


def is_error(cell: str) -> bool:
    """Whether ISERROR marks a note as an error. Some exports write 1.0 instead of 1."""
    return cell.strip() in ("1", "1.0")


def line(cells: dict[str, str]) -> bytes:
    """Return a row in the official layout: numbers bare, text in quotes, empty cells empty."""
    row = (cells.get(column, "") for column in _COLUMNS)
    return (",".join(c if c.isdigit() or not c else '"' + c.replace('"', '""') + '"' for c in row) + "\n").encode()


FORMAT = Mimic("mimic", "MIMIC-III NOTEEVENTS.csv: clinical notes", ("noteevents.csv",))
