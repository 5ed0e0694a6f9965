"""Notes as MIMIC gives them out: identifiers replaced by marks such as `[**Hospital1 18**]`."""

from __future__ import annotations

import re

from osler.clinic.distributions.rewriting import Edit, edited
from osler.clinic.distributions.temporal import whole_date
from osler.clinic.labels import PHI_LABELS
from osler.text.document import Document, Span

_YEARS_AHEAD = 100
_KEPT = frozenset({"AGE", "PROFESSION", "USERNAME"})
"""What MIMIC leaves in the text, or has no mark for."""
_MARKS = {
    "PATIENT": "Known lastname {0}",
    "DOCTOR": "Last Name (NamePattern1) {0}",
    "HOSPITAL": "Hospital1 {1}",
    "ORGANIZATION": "Company {0}",
    "STREET": "Street Address(2) {0}",
    "CITY": "Location (un) {0}",
    "STATE": "State {0}",
    "COUNTRY": "Country {0}",
    "ZIP": "Numeric Identifier {0}",
    "PHONE": "Telephone/Fax (1) {0}",
    "FAX": "Telephone/Fax (1) {0}",
    "EMAIL": "E-mail address {0}",
    "URL": "URL {0}",
    "ID": "Numeric Identifier {0}",
}


def deidentified(note: Document) -> Document:
    """The note with marks for what would tell who it is about; clinical spans move along."""
    identifiers = [span for span in note.spans if span.label in PHI_LABELS and span.label not in _KEPT]
    edits: list[Edit] = []
    numbers: dict[tuple[str, str], int] = {}
    for span in sorted(identifiers, key=lambda item: item.start):
        if not edits or span.start >= edits[-1][1]:
            edits.append((span.start, span.end, _mark(span, note.text, numbers)))
    clinical = [span for span in note.spans if span.label not in PHI_LABELS]
    ids = {span.id for span in clinical}
    relations = tuple(relation for relation in note.relations if relation.head in ids and relation.tail in ids)
    return edited(note.with_(spans=tuple(clinical), relations=relations), edits)


def _mark(span: Span, text: str, numbers: dict[tuple[str, str], int]) -> str:
    surface = text[span.start : span.end]
    if span.label == "DATE":
        return _date(surface)
    # The same name gets the same number throughout a note.
    number = numbers.setdefault((span.label, surface), len(numbers) + 1)
    return f"[**{_MARKS[span.label].format(100 + 7 * number, number)}**]"


def _date(surface: str) -> str:
    day = whole_date(surface)
    if day:
        return f"[**{day.year + _YEARS_AHEAD}-{day.month}-{day.day}**]"
    if re.fullmatch(r"\d{4}", surface):
        return f"[**{int(surface) + _YEARS_AHEAD}**]"
    if match := re.fullmatch(r"(\d{1,2})/(\d{1,2})", surface):
        return f"[**{match[1]}-{match[2]}**]"
    return f"[**Month (only) {100 + len(surface)}**]"
