"""n2c2 2018 track 2: drugs with their strength, form, reason and adverse effects, in brat files over MIMIC discharge summaries."""

from __future__ import annotations

import re

from osler.clinic.distributions.base import DistributionWriter
from osler.clinic.distributions.rewriting import deidentified
from osler.clinic.labels import ATTRIBUTE_RELATIONS, MEDICATION_LABELS, Split
from osler.clinic.notes import SUMMARIES, notes
from osler.text.document import Document, Relation, Span

_LABELS = {"DRUG": "Drug", **{label: name.removesuffix("-Drug") for label, name in ATTRIBUTE_RELATIONS.items()}}
_LINE = re.compile(r"[^\n]*[^\s]")


def _official(note: Document, name: str) -> Document:
    """A problem is in the record only as a reason for a drug, as an adverse effect of one, or as both."""
    note = deidentified(note)
    relations = [relation for relation in note.relations if relation.label in MEDICATION_LABELS]
    spans: list[Span] = []
    names: dict[tuple[str, str], str] = {}
    for span in note.spans:
        roles = {r.label.removesuffix("-Drug") for r in relations if r.head == span.id}
        wanted = [_LABELS[span.label]] if span.label in _LABELS else sorted(roles) if span.label == "PROBLEM" else []
        # A mention over a line break has two fragments, as in the official files.
        lines = ((start, _LINE.finditer(note.text[start:end])) for start, end in span.fragments)
        fragments = tuple((start + m.start(), start + m.end()) for start, found in lines for m in found)
        for label in wanted:
            names[span.id, label] = f"T{len(spans) + 1}"
            spans.append(Span(fragments, label, names[span.id, label]))
    linked = tuple(
        Relation(r.label, names[r.head, r.label.removesuffix("-Drug")], names[r.tail, "Drug"], f"R{number}")
        for number, r in enumerate(relations, start=1)
    )
    return note.with_(id=name, spans=tuple(spans), relations=linked, labels=(), value=None)


def make(writer: DistributionWriter) -> None:
    """Write the training and the test folder."""
    parts: tuple[tuple[Split, int], ...] = (("train", 900_001), ("test", 900_005))
    for folder, (split, first) in zip(writer.packages, parts, strict=True):
        summaries = notes(writer.sizes[split], language="en", seed=writer.seed, split=split, kinds=SUMMARIES)
        writer.save(split, (_official(note, str(first + 17 * k)) for k, note in enumerate(summaries)), folder)
