"""OMOP CDM 5.4: the tables NOTE and NOTE_NLP as CSV.

NOTE has one row per document and NOTE_NLP one per mention. Both are numbered from 1 (`first_note`, `first_mention`); the id of
the document goes to `note_source_value`. No concepts are invented: `note_nlp_concept_id` is 0, OMOP's "no matching concept".
The label, score and attributes of a mention are in `term_modifiers`.

`term_exists` is N if a mention is negated, hypothetical or of someone else, else Y; `term_temporal` is Past or Present. The
metadata `person_id` (or a `patient` that is a number), `note_date` (or `date`), `note_title` (or `title`), `visit_occurrence_id`
and `provider_id` of a document go to their columns. Required values that are missing are left empty and counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from osler.core.errors import RecipeError
from osler.core.files import csv_row
from osler.core.parsing import to_int
from osler.core.version import VERSION
from osler.formats.assertion import assertions
from osler.formats.base import OutputFormat
from osler.formats.output import ATTRIBUTES, FILLED, SCORES, SPANS, OutputFolder, documents, output_file
from osler.text.document import Document, Record, Span

NOTE = (
    "note_id",
    "person_id",
    "note_date",
    "note_datetime",
    "note_type_concept_id",
    "note_class_concept_id",
    "note_title",
    "note_text",
    "encoding_concept_id",
    "language_concept_id",
    "provider_id",
    "visit_occurrence_id",
    "visit_detail_id",
    "note_source_value",
    "note_event_id",
    "note_event_field_concept_id",
)
NOTE_NLP = (
    "note_nlp_id",
    "note_id",
    "section_concept_id",
    "snippet",
    "offset",
    "lexical_variant",
    "note_nlp_concept_id",
    "note_nlp_source_concept_id",
    "nlp_system",
    "nlp_date",
    "nlp_datetime",
    "term_exists",
    "term_temporal",
    "term_modifiers",
)
_NUMBERS = {
    "person_id": ("person_id", "patient", "patient_id", "subject_id"),
    "provider_id": ("provider_id",),
    "visit_occurrence_id": ("visit_occurrence_id",),
}
_TEXTS = {"note_date": ("note_date", "date"), "note_title": ("note_title", "title")}
_META = frozenset(name for names in (*_NUMBERS.values(), *_TEXTS.values()) for name in names)
_SHORT, _LONG = 250, 2000
"""Maximum characters of the varchar columns."""
_CONTEXT = 60
"""Characters of context on each side of a mention in its snippet."""
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_CUT = "values cut to the length of their column"


@dataclass(frozen=True)
class Omop(OutputFormat):
    """NOTE and NOTE_NLP. `date` is the day of processing (YYYY-MM-DD), by default today in UTC."""

    date: str = ""
    first_note: int = 1
    first_mention: int = 1

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        day = self.date or datetime.now(UTC).date().isoformat()
        if not _is_date(day):
            raise RecipeError(f"{day!r} is not a date", fix="Write it as 2026-11-18")
        OutputFolder(path, losses)
        mention = self.first_mention
        with ExitStack() as stack:
            notes = stack.enter_context(_Table(path / "note.csv", NOTE))
            found = stack.enter_context(_Table(path / "note_nlp.csv", NOTE_NLP))
            held = {SPANS, SCORES, ATTRIBUTES}
            for number, document in enumerate(
                documents(records, losses, holds=held, meta=_META), start=self.first_note
            ):
                losses[SCORES] += len(document.scores) + sum(r.score is not None for r in document.relations)
                losses[ATTRIBUTES] += sum(len(relation.attributes) for relation in document.relations)
                notes.row(_note(document, number, losses))
                for span in document.spans:
                    found.row(_mention(document, span, number, mention, day, losses))
                    mention += 1


class _Table:
    """A CSV file that is written completely or not at all."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._columns = columns
        self._file = output_file(path)

    def __enter__(self) -> _Table:
        self._stream = self._file.__enter__()
        self._stream.write(csv_row(self._columns).encode())
        return self

    def __exit__(self, *error: Any) -> None:
        self._file.__exit__(*error)

    def row(self, cells: dict[str, object]) -> None:
        self._stream.write(csv_row(cells.get(column, "") for column in self._columns).encode())


def _note(document: Document, number: int, losses: Counter[str]) -> dict[str, object]:
    cells: dict[str, object] = {}
    for column, names in _NUMBERS.items():
        numbers = (to_int(document.meta.get(name, "")) for name in names)
        cells[column] = next((found for found in numbers if found is not None), "")
    given = {column: next(filter(None, map(document.meta.get, names)), "") for column, names in _TEXTS.items()}
    day = given["note_date"] if _is_date(given["note_date"][:10]) else ""
    losses[FILLED] += (cells["person_id"] == "") + (not day)
    return cells | {
        "note_id": number,
        "note_date": day[:10],
        "note_datetime": day if len(day) > 10 else "",
        "note_type_concept_id": 0,
        "note_class_concept_id": 0,
        "note_title": _cut(given["note_title"], _SHORT, losses),
        "note_text": document.text,
        "encoding_concept_id": 0,
        "language_concept_id": 0,
        "note_source_value": document.id,
    }


def _mention(
    document: Document, span: Span, note: int, number: int, day: str, losses: Counter[str]
) -> dict[str, object]:
    said = assertions(span)
    modifiers = {"label": span.label}
    if span.score is not None:
        modifiers["score"] = f"{span.score:g}"
    if span.id:
        modifiers["id"] = span.id
    modifiers |= span.attributes
    listed = ",".join(f"{_flat(key)}={_flat(value)}" for key, value in modifiers.items())
    return {
        "note_nlp_id": number,
        "note_id": note,
        "section_concept_id": 0,
        "snippet": _snippet(document.text, span),
        "offset": span.start,
        "lexical_variant": _cut(span.text_in(document.text), _SHORT, losses),
        "note_nlp_concept_id": 0,
        "note_nlp_source_concept_id": 0,
        "nlp_system": f"osler {VERSION}",
        "nlp_date": day,
        "nlp_datetime": f"{day} 00:00:00",
        "term_exists": "N" if said & {"negated", "hypothetical", "other"} else "Y",
        "term_temporal": "Past" if "historical" in said else "Present",
        "term_modifiers": _cut(listed, _LONG, losses),
    }


def _snippet(text: str, span: Span) -> str:
    """Return the mention with some context, cut to the length of the column."""
    start, end = max(0, span.start - _CONTEXT), min(len(text), span.end + _CONTEXT)
    return text[start : min(end, start + _SHORT)]


def _flat(value: str) -> str:
    """Remove the characters that separate modifiers: comma and equals sign."""
    return re.sub(r"[,=\s]+", " ", value)


def _cut(value: str, length: int, losses: Counter[str]) -> str:
    losses[_CUT] += len(value) > length
    return value[:length]


def _is_date(day: str) -> bool:
    try:
        return bool(_DATE.fullmatch(day) and date.fromisoformat(day))
    except ValueError:
        return False


FORMAT = Omop("omop", "OMOP CDM 5.4: note.csv and note_nlp.csv", (".csv",), "folder")
