"""i2b2 2014: protected health information in raw notes, several per patient, in two training sets and a test set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from osler.clinic.distributions.base import DistributionWriter, edit_tags
from osler.clinic.distributions.rewriting import edited, full_date
from osler.clinic.labels import ID_KINDS
from osler.clinic.notes import notes
from osler.text.document import Document, Span

_FIRST_SET, _BOTH_SETS = 521, 790
"""Training records of the release in the first set, and in both."""
_CATEGORIES = {
    "NAME": ("PATIENT", "DOCTOR", "USERNAME"),
    "PROFESSION": ("PROFESSION",),
    "LOCATION": ("HOSPITAL", "ORGANIZATION", "STREET", "CITY", "STATE", "COUNTRY", "ZIP"),
    "AGE": ("AGE",),
    "DATE": ("DATE",),
    "CONTACT": ("PHONE", "FAX", "EMAIL", "URL"),
    "ID": ID_KINDS,
}
_CATEGORY = {label: category for category, labels in _CATEGORIES.items() for label in labels}
_YEARS_AHEAD = 60
"""Official dates are shifted into the future, as the line "Record date:" shows."""


def _official(note: Document, name: str) -> Document:
    found = []
    for span in note.spans:
        label = span.attributes.get("kind", "IDNUM") if span.label == "ID" else span.label
        if label in _CATEGORY:
            found.append(replace(span, label=label, attributes={"element": _CATEGORY[label]}))
    days = (full_date(note.text[span.start : span.end]) for span in found if span.label == "DATE")
    day = next((day for day in days if day and day.year > 2000), None)
    written = f"{(day.year if day else 2015) + _YEARS_AHEAD}-{day.strftime('%m-%d') if day else '06-15'}"
    head = f"\n\n\nRecord date: {written}\n\n"
    note = edited(note.with_(spans=tuple(found), relations=(), labels=(), value=None), [(0, 0, head)])
    start = head.index(written)
    record_date = Span.at(start, start + len(written), "DATE", attributes={"element": "DATE"})
    spans = tuple(replace(span, id=f"P{index}") for index, span in enumerate((record_date, *note.spans)))
    return note.with_(id=name, spans=spans)


def _records(every: Iterable[Document], first: int) -> Iterator[Document]:
    """Records named by patient and number: 100-01, 100-02, 101-01."""
    numbers: dict[str, int] = {}
    counts: Counter[int] = Counter()
    for note in every:
        number = numbers.setdefault(note.meta["patient"], first + len(numbers))
        counts[number] += 1
        yield _official(note, f"{number}-{counts[number]:02}")


def _patient(record: Document) -> str:
    return record.id.partition("-")[0]


def make(writer: DistributionWriter) -> None:
    """Write the two training sets and the test set."""
    n, size, seed = writer.sizes["train"], writer.sizes["test"], writer.seed
    train = list(_records(notes(n, language="en", seed=seed, split="train"), 100))
    test = list(_records(notes(size, language="en", seed=seed, split="test"), 100 + n))
    # All records of a patient are in one set.
    patients = list(dict.fromkeys(map(_patient, train)))
    border = min(round(len(patients) * _FIRST_SET / _BOTH_SETS), len(patients) - 1)
    first = [record for record in train if _patient(record) in patients[:border]]
    parts = (("train", first), ("train", train[len(first) :]), ("test", test))
    for folder, (split, records) in zip(writer.packages, parts, strict=True):
        writer.save(split, records, folder)
        # Every official tag has an empty comment.
        edit_tags(writer.folder / folder, (" />\n", ' comment="" />\n'))
