"""ShARe/CLEF eHealth 2013 task 1: disorders by offset in MIMIC reports, some discontinuous, with a concept or without."""

from __future__ import annotations

from dataclasses import replace

from osler.clinic.distributions.base import DistributionWriter
from osler.clinic.distributions.rewriting import deidentified
from osler.clinic.labels import Split
from osler.clinic.lexicon import bucket
from osler.clinic.notes import notes
from osler.core.seeding import derive
from osler.text.document import Document, Span

_KINDS = {"progress note": "RADIOLOGY_REPORT", "clinic letter": "ECHO_REPORT"}
_WITHOUT_CONCEPT = 30
"""Percent of the disorders that have no concept, the same ones wherever they occur."""


def _concept(span: Span, text: str) -> str:
    """A made-up concept identifier, in a range that the UMLS does not use."""
    name = " ".join(span.text_in(text).lower().split())
    return "CUI-less" if bucket(name, "cui") < _WITHOUT_CONCEPT else f"C9{derive(0, 'cui', name) % 10**6:06}"


def _official(note: Document, number: int) -> Document:
    name = f"{number:05}-{900_000 + 37 * number:06}-{_KINDS.get(note.meta['kind'], 'DISCHARGE_SUMMARY')}"
    note = deidentified(note)
    spans = tuple(
        replace(span, label="Disease_Disorder", attributes={"concept": _concept(span, note.text)})
        for span in note.spans
        if span.label == "PROBLEM"
    )
    return note.with_(id=name, spans=spans, relations=(), labels=(), value=None)


def make(writer: DistributionWriter) -> None:
    """Write reports and pipe files in the four folders of the task."""
    train, train_gold, test, test_gold = writer.packages
    parts: dict[Split, tuple[int, str, str]] = {
        "train": (1, train, f"{train_gold}/Task1Gold"),
        "test": (writer.sizes["train"] + 1, test, f"{test_gold}/Gold_SN2012"),
    }
    for split, (first, corpus, gold) in parts.items():
        reports = notes(writer.sizes[split], language="en", seed=writer.seed, split=split)
        writer.save(split, (_official(note, number) for number, note in enumerate(reports, first)), corpus)
        (writer.folder / gold).parent.mkdir()
        (writer.folder / corpus / "Task1Gold").rename(writer.folder / gold)
