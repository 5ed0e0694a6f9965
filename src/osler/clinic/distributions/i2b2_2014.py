"""i2b2 2014: protected health information in raw notes, several of one patient, in two training sets and a test set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from osler.clinic.distributions.base import Distribution, Order, Package, Tally, save
from osler.clinic.distributions.clinical import clinic_notes
from osler.clinic.distributions.rewriting import edited
from osler.clinic.distributions.temporal import whole_date
from osler.text.document import Document, Span

_SETS = ("training-PHI-Gold-Set1", "training-PHI-Gold-Set2")
_TEST = "testing-PHI-Gold-fixed"
_OFFICIAL = (521, 269, 514)
_CATEGORIES = {
    "NAME": ("PATIENT", "DOCTOR", "USERNAME"),
    "PROFESSION": ("PROFESSION",),
    "LOCATION": ("HOSPITAL", "ORGANIZATION", "STREET", "CITY", "STATE", "COUNTRY", "ZIP"),
    "AGE": ("AGE",),
    "DATE": ("DATE",),
    "CONTACT": ("PHONE", "FAX", "EMAIL", "URL"),
    "ID": ("MEDICALRECORD", "ACCOUNT", "HEALTHPLAN", "SSN", "LICENSE", "DEVICE", "IDNUM"),
}
_CATEGORY = {label: category for category, labels in _CATEGORIES.items() for label in labels}
_YEARS_AHEAD = 60
"""Official dates are moved into the future; the line "Record date:" shows it."""


def _official(note: Document, name: str) -> Document:
    found = []
    for span in note.spans:
        label = span.attributes.get("kind", "IDNUM") if span.label == "ID" else span.label
        if label in _CATEGORY:
            found.append(replace(span, label=label, attributes={"element": _CATEGORY[label]}))
    days = (whole_date(note.text[span.start : span.end]) for span in found if span.label == "DATE")
    day = next((day for day in days if day and day.year > 2000), None)
    written = f"{(day.year if day else 2015) + _YEARS_AHEAD}-{day.strftime('%m-%d') if day else '06-15'}"
    head = f"\n\n\nRecord date: {written}\n\n"
    note = edited(note.with_(spans=tuple(found), relations=(), labels=(), value=None), [(0, 0, head)])
    start = head.index(written)
    record_date = Span.at(start, start + len(written), "DATE", attributes={"element": "DATE"})
    spans = tuple(replace(span, id=f"P{place}") for place, span in enumerate((record_date, *note.spans)))
    return note.with_(id=name, spans=spans)


def _records(notes: Iterable[Document], first: int) -> Iterator[Document]:
    """Records named by patient and number: 100-01, 100-02, 101-01."""
    patients: dict[str, int] = {}
    counts: dict[str, int] = {}
    for note in notes:
        patient = note.meta["patient"]
        number = patients.setdefault(patient, first + len(patients))
        counts[patient] = counts.get(patient, 0) + 1
        yield _official(note, f"{number}-{counts[patient]:02}")


def _patient(record: Document) -> str:
    return record.id.partition("-")[0]


def _finish(folder: Path) -> None:
    """Add the empty comment that every official tag has."""
    for path in sorted(folder.glob("*.xml")):
        head, close, tags = path.read_text(encoding="utf-8").partition("]]></TEXT>")
        path.write_text(head + close + tags.replace(" />\n", ' comment="" />\n'), encoding="utf-8")


def make(order: Order, folder: Path) -> Tally:
    """Write the two training sets and the test set."""
    tally = Tally()
    train = list(_records(clinic_notes(order.n, order.seed, "train"), 100))
    test_size = order.share(_OFFICIAL[2], _OFFICIAL[0] + _OFFICIAL[1])
    test = list(_records(clinic_notes(test_size, order.seed, "test"), 100 + order.n))
    # A patient's records stay in one set.
    patients = list(dict.fromkeys(_patient(record) for record in train))
    border = min(round(len(patients) * _OFFICIAL[0] / (_OFFICIAL[0] + _OFFICIAL[1])), len(patients) - 1)
    first = [record for record in train if _patient(record) in patients[:border]]
    for split, name, records in (
        ("train", _SETS[0], first),
        ("train", _SETS[1], train[len(first) :]),
        ("test", _TEST, test),
    ):
        save("i2b2_2014", tally.through(split, records), folder / name)
        _finish(folder / name)
    return tally


DISTRIBUTION = Distribution(
    name="i2b2-2014",
    title="i2b2 2014 challenge: de-identification",
    format="i2b2_2014",
    splits={"train": tuple(f"*{name}/*.xml" for name in _SETS), "test": (f"*{_TEST}/*.xml",)},
    packages=(
        Package(_SETS[0], f"2014_{_SETS[0]}.tar.gz"),
        Package(_SETS[1], f"{_SETS[1]}.tar.gz"),
        Package(_TEST, f"{_TEST}.tar.gz"),
    ),
    make=make,
)
