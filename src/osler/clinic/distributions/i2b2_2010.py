"""i2b2/VA 2010: concepts, assertions and relations by line and token, from two hospitals, test texts apart from their gold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from osler.clinic.distributions.base import Distribution, Order, Package, Tally, save
from osler.clinic.distributions.clinical import CONCEPTS, SUMMARIES, clinic_notes
from osler.clinic.distributions.rewriting import contiguous, relabelled
from osler.clinic.distributions.tokenised import same_line, tokenised
from osler.clinic.labels import TEST_LABELS, TREATMENT_LABELS
from osler.text.document import Document

_TRAIN = "concept_assertion_relation_training_data"
_GOLD = "reference_standard_for_test_data"
_TEXTS = "test_data"
_RELATIONS = frozenset({*TREATMENT_LABELS, *TEST_LABELS, "PIP"})
_OFFICIAL = (170, 256)
_BETH = 0.43
"""The share of training records in the folder beth/: 73 of 170 in the release obtainable today."""


def _official(note: Document, name: str) -> Document:
    """A discharge summary with the challenge's concepts; relations hold within a line."""
    assertions = {span.id: span.attributes["assertion"] for span in note.spans if "assertion" in span.attributes}
    note = relabelled(note, lambda span: CONCEPTS.get(span.label), lambda relation: relation.label in _RELATIONS)
    note = tokenised(contiguous(note))
    spans = tuple(
        replace(span, attributes={"assertion": assertions[span.id]}) if span.id in assertions else span
        for span in note.spans
    )
    relations = tuple(r for r in note.relations if same_line(note, r.head, r.tail))
    return note.with_(id=name, spans=spans, relations=relations, labels=(), value=None)


def _records(notes: Iterable[Document], pattern: str) -> Iterator[Document]:
    return (_official(note, pattern.format(number)) for number, note in enumerate(notes, start=1))


def make(order: Order, folder: Path) -> Tally:
    """Write the three folders of the release."""
    tally = Tally()
    # Fewer than two records cannot come from two hospitals.
    beth = min(max(round(order.n * _BETH), 1), max(order.n - 1, 1))
    notes = list(clinic_notes(order.n, order.seed, "train", kinds=SUMMARIES))
    for hospital, part, pattern in (("beth", notes[:beth], "record-{}"), ("partners", notes[beth:], "9{:08}")):
        if part:
            save("i2b2_2010", tally.through("train", _records(part, pattern)), folder / _TRAIN / hospital)
    test = clinic_notes(order.share(_OFFICIAL[1], _OFFICIAL[0]), order.seed, "test", kinds=SUMMARIES)
    save("i2b2_2010", tally.through("test", _records(test, "{:04}")), folder / _GOLD)
    (folder / _GOLD / "concept").rename(folder / _GOLD / "concepts")
    (folder / _GOLD / "txt").rename(folder / _TEXTS)
    return tally


DISTRIBUTION = Distribution(
    name="i2b2-2010",
    title="i2b2/VA 2010 challenge: concepts, assertions and relations",
    format="i2b2_2010",
    splits={"train": (f"*{_TRAIN}/*",), "test": (f"*{_GOLD}/*", f"*{_TEXTS}/*.txt")},
    packages=tuple(Package(name, f"{name}.tar.gz") for name in (_TRAIN, _GOLD, _TEXTS)),
    make=make,
)
