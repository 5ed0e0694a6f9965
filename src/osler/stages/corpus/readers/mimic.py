"""MIMIC-III NOTEEVENTS: one table of notes. Notes that are marked as errors are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from pydantic import field_validator

from osler.core.config import Recipe
from osler.core.errors import InputError, nearest
from osler.formats.mimic import CATEGORIES, is_error
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.csv_rows import TableFile, TableOptions, TableRow
from osler.stages.corpus.documents import BadRecord, FileRange, InputFile, LeftOut, RawDocument, named_facts
from osler.stages.corpus.inputs import cut_lines

_FACTS = {"patient": "SUBJECT_ID", "date": "CHARTDATE", "section": "CATEGORY", "title": "DESCRIPTION"}
_COLUMNS = ("ROW_ID", "ISERROR", "TEXT", *_FACTS.values())
_MARK = re.compile(r"\[\*\*([^\[\]]{0,200}?)\*\*\]")
# The first pattern that matches the text between the stars decides.
_MARKS = [
    ("AGE", re.compile(r"\bage\b")),
    ("PHONE", re.compile(r"telephone|fax|pager|phone")),
    ("HOSPITAL", re.compile(r"hospital|ward|clinic")),
    ("NAME", re.compile(r"name|initials")),
    ("LOCATION", re.compile(r"location|address|street|state|country|city|zip|po box|university|college|company")),
    ("DATE", re.compile(r"date|month|year|holiday|^[\s\d/-]*\d[\s\d/-]*$")),
    ("ID", re.compile(r"number|identifier|\bssn\b|medical record|job|clip|serial")),
    ("PHI", re.compile(r"")),
]


class MimicOptions(Recipe):
    """Which notes are read, and how."""

    categories: tuple[str, ...] = ()
    """Keep only notes with one of these CATEGORY values; by default all. The 3.3 GB that lewis2020 calls physician notes are nearly
    the complete table, far more than the category Physician."""
    errors: bool = False
    """Keep notes that are marked as errors (ISERROR = 1)."""
    marks: Literal["keep", "replace"] = "keep"
    """What to do with de-identification marks such as `[**Hospital1 18**]`: replace turns them into `[HOSPITAL]`."""

    @field_validator("categories")
    @classmethod
    def _known_categories(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in CATEGORIES:
                close = nearest(name, CATEGORIES)
                hint = f"did you mean {close!r}?" if close else f"known: {', '.join(CATEGORIES)}"
                raise ValueError(f"unknown category {name!r}; {hint}")
        return value


class MimicReader:
    """Reads NOTEEVENTS.csv of MIMIC-III. The id is ROW_ID, the patient SUBJECT_ID, the date CHARTDATE, the section CATEGORY and the
    title DESCRIPTION.

    Column names may be in either case. Notes that are marked as errors are left out.
    """

    endings = ()
    options = MimicOptions

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FileRange]:
        return TableFile(file, source.encoding, TableOptions()).ranges(cut_lines(file, size))

    def read(self, file_range: FileRange, source: CorpusSource) -> Iterator[RawDocument | BadRecord | LeftOut]:
        options = source.options
        assert isinstance(options, MimicOptions)
        table = TableFile(file_range.file, source.encoding, TableOptions())
        names = [name.upper() for name in table.columns]
        lacking = [name for name in _COLUMNS if name not in names]
        if lacking:
            problem = f"columns are missing: {', '.join(lacking)}"
            raise InputError(problem, where=file_range.file.path, fix="Give NOTEEVENTS.csv, or use the reader table")
        columns = [names.index(name) for name in _COLUMNS]
        for row in table.rows(file_range):
            bad = row if isinstance(row, BadRecord) else row.undecodable(columns)
            if bad:
                yield bad
                continue
            assert isinstance(row, TableRow)
            cells = {name: row.cells[column] for name, column in zip(_COLUMNS, columns, strict=True)}
            text = cells.pop("TEXT")
            cells = {name: cell.strip() for name, cell in cells.items()}
            key = cells["ROW_ID"] or None
            if is_error(cells["ISERROR"]) and not options.errors:
                yield LeftOut(row.line, "mimic.errors", key)
            elif options.categories and cells["CATEGORY"] not in options.categories:
                yield LeftOut(row.line, "mimic.categories", key)
            else:
                text = _MARK.sub(_replacement, text) if options.marks == "replace" else text
                yield RawDocument(row.line, text, key, named_facts(cells, _FACTS | dict(source.facts)))


def _replacement(mark: re.Match[str]) -> str:
    inside = mark[1].lower()
    return next(f"[{kind}]" for kind, pattern in _MARKS if pattern.search(inside))


READER = MimicReader()
