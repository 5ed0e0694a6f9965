"""MIMIC-III NOTEEVENTS: one large CSV of notes, read row by row.

Column names may be in either case (exports from the database are lower-case). Notes marked as errors (ISERROR = 1)
are left out unless `errors` is set. Categories lose the blank some of them end in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from osler.core.errors import InputError
from osler.formats.base import Loss, Problems, strict_unless
from osler.formats.output import META, only_documents, output_file, unheld
from osler.formats.sources import Source, csv_rows, opened
from osler.text.document import Document, Record

_COLUMNS = [
    "ROW_ID",
    "SUBJECT_ID",
    "HADM_ID",
    "CHARTDATE",
    "CHARTTIME",
    "STORETIME",
    "CATEGORY",
    "DESCRIPTION",
    "CGID",
    "ISERROR",
    "TEXT",
]
HEADER = (",".join(f'"{column}"' for column in _COLUMNS) + "\n").encode()
_META = {
    "SUBJECT_ID": "patient",
    "HADM_ID": "admission",
    "CHARTDATE": "date",
    "CATEGORY": "category",
    "DESCRIPTION": "description",
    "ISERROR": "error",
}


@dataclass(frozen=True)
class Mimic:
    """The table of notes."""

    name: str = "mimic"
    description: str = "MIMIC-III NOTEEVENTS.csv: clinical notes"
    suffixes: tuple[str, ...] = ("noteevents.csv",)
    layout: Literal["file", "folder"] = "file"
    errors: bool = False

    def detect(self, source: Source) -> bool:
        """Whether the first line names the columns."""
        with opened(source) as tree:
            heads = [line.upper() for name in tree.names("*noteevents*.csv")[:1] for line in tree.head(name, 1)]
            return any("ROW_ID" in head and "TEXT" in head for head in heads)

    def read(self, source: Source, *, problems: Problems | None = None) -> Iterator[Document]:
        """Yield the notes in file order."""
        found = strict_unless(problems)
        with opened(source) as tree:
            for name in tree.names("*noteevents*.csv") or list(tree):
                rows = csv_rows(tree, name)
                header = [column.strip().upper() for column in next(rows, (1, []))[1]]
                if not {"ROW_ID", "TEXT"} <= set(header):
                    raise InputError("no columns ROW_ID and TEXT", where=tree.where(name, 1), fix="Give NOTEEVENTS.csv")
                for number, row in rows:
                    if len(row) != len(header):
                        detail = f"{len(row)} columns instead of {len(header)}"
                        found.report("malformed-line", detail, where=tree.where(name, number))
                        continue
                    cells = dict(zip(header, row, strict=True))
                    if self.errors or cells.get("ISERROR", "").strip() not in ("1", "1.0"):
                        meta = {_META[key]: cell.strip() for key, cell in cells.items() if key in _META}
                        kept = {key: cell for key, cell in meta.items() if cell}
                        yield Document(cells["ROW_ID"].strip(), cells["TEXT"], meta=kept)

    def write(self, records: Iterable[Record], path: Path) -> Loss:
        """Write one table with the official columns."""
        losses: Counter[str] = Counter()
        with output_file(path) as stream:
            stream.write(HEADER)
            for record in records:
                if (document := only_documents(record, losses)) is None:
                    continue
                losses.update(unheld(document, {META}))
                losses[META] += len(document.meta.keys() - set(_META.values()))
                cells = {key: document.meta.get(name, "") for key, name in _META.items()}
                cells |= {"ROW_ID": document.id, "TEXT": document.text}
                stream.write(line(cells))
        return Loss(+losses)


def line(cells: dict[str, str]) -> bytes:
    """A row by its columns, as the table has it: numbers bare, text in quotes, empty cells empty."""
    row = (cells.get(column, "") for column in _COLUMNS)
    return (",".join(c if c.isdigit() or not c else '"' + c.replace('"', '""') + '"' for c in row) + "\n").encode()


FORMAT = Mimic()
