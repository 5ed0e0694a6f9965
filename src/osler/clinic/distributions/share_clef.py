"""ShARe/CLEF eHealth 2013 task 1: disorders by offset in MIMIC reports, discontinuous ones among them, with a concept or without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from osler.clinic.distributions.base import Distribution, Order, Package, Tally, save
from osler.clinic.distributions.clinical import clinic_notes
from osler.clinic.distributions.placeholders import deidentified
from osler.clinic.lexicon import bucket
from osler.core.seeding import derive
from osler.text.document import Document, Span

_TRAIN, _TRAIN_GOLD = "Task1TrainSetCorpus199", "Task1TrainSetGOLD199knowtatorehost"
_TEST, _TEST_GOLD = "Task1TestSetCorpus100", "Task1Gold_SN2012"
_OFFICIAL = (199, 100)
_KINDS = {"discharge summary": "DISCHARGE_SUMMARY", "progress note": "RADIOLOGY_REPORT", "clinic letter": "ECHO_REPORT"}
_WITHOUT_CONCEPT = 30
"""Percent of the disorders that have no concept, the same ones wherever they occur."""


def _concept(span: Span, text: str) -> str:
    """A made-up concept identifier, in a range where the UMLS has none."""
    name = " ".join(span.text_in(text).lower().split())
    return "CUI-less" if bucket(name, "cui") < _WITHOUT_CONCEPT else f"C9{derive(0, 'cui', name) % 10**6:06}"


def _official(note: Document, number: int) -> Document:
    kind = _KINDS.get(note.meta["kind"], "DISCHARGE_SUMMARY")
    note = deidentified(note)
    spans = tuple(
        replace(span, label="Disease_Disorder", attributes={"concept": _concept(span, note.text)})
        for span in note.spans
        if span.label == "PROBLEM"
    )
    name = f"{number:05}-{900_000 + 37 * number:06}-{kind}"
    return note.with_(id=name, spans=spans, relations=(), labels=(), value=None)


def _records(notes: Iterable[Document], first: int) -> Iterator[Document]:
    return (_official(note, first + place) for place, note in enumerate(notes))


def make(order: Order, folder: Path) -> Tally:
    """Write reports and pipe files in the four folders of the task."""
    tally = Tally()
    test_size = order.share(_OFFICIAL[1], _OFFICIAL[0])
    for split, size, first, corpus, gold in (
        ("train", order.n, 1, _TRAIN, f"{_TRAIN_GOLD}/Task1Gold"),
        ("test", test_size, order.n + 1, _TEST, f"{_TEST_GOLD}/Gold_SN2012"),
    ):
        notes = clinic_notes(size, order.seed, "train" if split == "train" else "test")
        save("share_clef", tally.through(split, _records(notes, first)), folder / corpus)
        (folder / gold).parent.mkdir()
        (folder / corpus / "Task1Gold").rename(folder / gold)
    return tally


DISTRIBUTION = Distribution(
    name="share-clef-2013",
    title="ShARe/CLEF eHealth 2013 task 1: disorders",
    format="share_clef",
    splits={
        "train": (f"*{_TRAIN}/*.txt", f"*{_TRAIN_GOLD}/*.txt"),
        "test": (f"*{_TEST}/*.txt", f"*{_TEST_GOLD}/*.txt"),
    },
    packages=tuple(Package(name, f"{name}.zip") for name in (_TRAIN, _TRAIN_GOLD, _TEST, _TEST_GOLD)),
    make=make,
)
