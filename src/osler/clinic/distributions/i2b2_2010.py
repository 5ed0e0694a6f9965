"""i2b2/VA 2010: concepts, assertions and relations by line and token, from two or three hospitals; test gold is in its own folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, islice, pairwise

from osler.clinic.distributions.base import DistributionWriter
from osler.clinic.distributions.rewriting import contiguous, relabelled, tokenised
from osler.clinic.labels import TEST_LABELS, TREATMENT_LABELS
from osler.clinic.notes import SUMMARIES, notes
from osler.text.document import Document, Relation

_CONCEPTS = {"PROBLEM": "problem", "TEST": "test", "DRUG": "treatment", "PROCEDURE": "treatment"}
_RELATIONS = frozenset({*TREATMENT_LABELS, *TEST_LABELS, "PIP"})
_SITES = {"beth": ("record-{}", 73), "partners": ("9{:08}", 97), "upmcd": ("report{}", 98), "upmcp": ("progress{}", 81)}
"""Names of records, and their number in training, by folder. Names and numbers of the third hospital are not verified: it gave
discharge summaries and progress notes, 179 in all."""


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
    """Write the three folders of the public release: two hospitals."""
    _write(writer, "beth", "partners")


def make_full(writer: DistributionWriter) -> None:
    """Write the same folders with the records of all hospitals."""
    _write(writer, *_SITES)


def _write(writer: DistributionWriter, *sites: str) -> None:
    folder, gold, texts = writer.packages
    train = iter(notes(writer.sizes["train"], language="en", seed=writer.seed, split="train", kinds=SUMMARIES))
    for site, number in zip(sites, _shares(writer.sizes["train"], [_SITES[site][1] for site in sites]), strict=True):
        writer.save("train", _records(islice(train, number), _SITES[site][0]), f"{folder}/{site}")
    test = notes(writer.sizes["test"], language="en", seed=writer.seed, split="test", kinds=SUMMARIES)
    writer.save("test", _records(test, "{:04}"), gold)
    (writer.folder / gold / "concept").rename(writer.folder / gold / "concepts")
    (writer.folder / gold / "txt").rename(writer.folder / texts)


def _shares(n: int, sizes: Sequence[int]) -> list[int]:
    """Divide n records in the proportion of these sizes, at least one for each."""
    ends = [round(n * done / sum(sizes)) for done in accumulate(sizes)]
    for place in range(len(ends) - 1):
        ends[place] = min(max(ends[place], place + 1), n - (len(ends) - 1 - place))
    return [end - start for start, end in pairwise([0, *ends])]
