"""i2b2/VA 2010: concepts, assertions and relations by line and token, from two hospitals; test gold is in its own folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from osler.clinic.distributions.base import DistributionWriter
from osler.clinic.distributions.rewriting import contiguous, relabelled, tokenised
from osler.clinic.labels import TEST_LABELS, TREATMENT_LABELS
from osler.clinic.notes import SUMMARIES, notes
from osler.text.document import Document, Relation

_CONCEPTS = {"PROBLEM": "problem", "TEST": "test", "DRUG": "treatment", "PROCEDURE": "treatment"}
_RELATIONS = frozenset({*TREATMENT_LABELS, *TEST_LABELS, "PIP"})
_BETH = 0.43
"""Share of training records in the folder beth/: 73 of 170 in the release that can be obtained today."""


def _official(note: Document, name: str) -> Document:
    assertions = {span.id: span.attributes["assertion"] for span in note.spans if "assertion" in span.attributes}
    note = relabelled(note, lambda span: _CONCEPTS.get(span.label), lambda relation: relation.label in _RELATIONS)
    note = tokenised(contiguous(note))

    def on_one_line(relation: Relation) -> bool:
        ends = note.span(relation.head), note.span(relation.tail)
        return "\n" not in note.text[min(s.start for s in ends) : max(s.end for s in ends)]

    spans = tuple(
        replace(span, attributes={"assertion": assertions[span.id]}) if span.id in assertions else span
        for span in note.spans
    )
    relations = tuple(filter(on_one_line, note.relations))
    return note.with_(id=name, spans=spans, relations=relations, labels=(), value=None)


def _records(summaries: Iterable[Document], pattern: str) -> Iterator[Document]:
    return (_official(note, pattern.format(number)) for number, note in enumerate(summaries, start=1))


def make(writer: DistributionWriter) -> None:
    """Write the three folders of the release."""
    folder, gold, texts = writer.packages
    n = writer.sizes["train"]
    # Both hospitals have at least one record.
    beth = min(max(round(n * _BETH), 1), max(n - 1, 1))
    train = list(notes(n, language="en", seed=writer.seed, split="train", kinds=SUMMARIES))
    writer.save("train", _records(train[:beth], "record-{}"), f"{folder}/beth")
    writer.save("train", _records(train[beth:], "9{:08}"), f"{folder}/partners")
    test = notes(writer.sizes["test"], language="en", seed=writer.seed, split="test", kinds=SUMMARIES)
    writer.save("test", _records(test, "{:04}"), gold)
    (writer.folder / gold / "concept").rename(writer.folder / gold / "concepts")
    (writer.folder / gold / "txt").rename(writer.folder / texts)
