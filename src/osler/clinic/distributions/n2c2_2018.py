"""n2c2 2018 track 2: drugs with their strength, form, reason and adverse effects, in brat files over MIMIC discharge summaries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from osler.clinic.distributions.base import Distribution, Order, Package, Tally, save
from osler.clinic.distributions.clinical import SUMMARIES, clinic_notes
from osler.clinic.distributions.placeholders import deidentified
from osler.clinic.labels import MEDICATION_LABELS
from osler.text.document import Document, Fragment, Relation, Span

_TRAIN, _TEST = "training_20180910", "gold-standard-test-data"
_OFFICIAL = (303, 202)
_LABELS = {
    "DRUG": "Drug",
    "STRENGTH": "Strength",
    "FORM": "Form",
    "DOSE": "Dosage",
    "FREQUENCY": "Frequency",
    "ROUTE": "Route",
    "DURATION": "Duration",
}
_LINE = re.compile(r"[^\n]*[^\s]")


def _official(note: Document, name: str) -> Document:
    """The record: a problem is in it as far as it is a reason for a drug, or an adverse effect of one, or both."""
    note = deidentified(note)
    relations = [relation for relation in note.relations if relation.label in MEDICATION_LABELS]
    spans: list[Span] = []
    names: dict[tuple[str, str], str] = {}
    for span in note.spans:
        roles = {r.label.removesuffix("-Drug") for r in relations if r.head == span.id}
        wanted = [_LABELS[span.label]] if span.label in _LABELS else sorted(roles) if span.label == "PROBLEM" else []
        for label in wanted:
            names[span.id, label] = f"T{len(spans) + 1}"
            spans.append(Span(_by_line(span, note.text), label, names[span.id, label]))
    linked: list[Relation] = []
    for relation in relations:
        head = names[relation.head, relation.label.removesuffix("-Drug")]
        linked.append(Relation(relation.label, head, names[relation.tail, "Drug"], f"R{len(linked) + 1}"))
    return replace(note, id=name, spans=tuple(spans), relations=tuple(linked), labels=(), value=None)


def _by_line(span: Span, text: str) -> tuple[Fragment, ...]:
    """The fragments of a span; one that a line break runs through is two, as the official files write it."""
    return tuple(
        (start + match.start(), start + match.end())
        for start, end in span.fragments
        for match in _LINE.finditer(text[start:end])
    )


def _records(notes: Iterable[Document], first: int) -> Iterator[Document]:
    return (_official(note, str(first + place * 17)) for place, note in enumerate(notes))


def make(order: Order, folder: Path) -> Tally:
    """Write the training and the test folder."""
    tally = Tally()
    train = clinic_notes(order.n, order.seed, "train", kinds=SUMMARIES)
    test = clinic_notes(order.share(_OFFICIAL[1], _OFFICIAL[0]), order.seed, "test", kinds=SUMMARIES)
    save("brat", tally.through("train", _records(train, 900_001)), folder / _TRAIN)
    save("brat", tally.through("test", _records(test, 900_005)), folder / _TEST)
    return tally


DISTRIBUTION = Distribution(
    name="n2c2-2018",
    title="n2c2 2018 track 2: adverse drug events and medication extraction",
    format="brat",
    splits={"train": (f"*{_TRAIN}/*",), "test": (f"*{_TEST}/*",)},
    packages=tuple(Package(name, f"{name}.zip") for name in (_TRAIN, _TEST)),
    make=make,
)
