"""Counting what records hold: the numbers in a manifest, and those that `osler tasks check` compares with the card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from osler.tasks.card import Kind
from osler.text.document import Document, Record, Span


class Tally:
    """Counts the records that pass through it."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._numbers: Counter[str] = Counter()
        self._labels: Counter[str] = Counter()
        self._entities: Counter[str] = Counter()

    def add(self, record: Record) -> None:
        """Count one record."""
        numbers = self._numbers
        numbers["documents"] += 1
        labels: Sequence[str] = record.labels
        numbers["assigned"] += len(labels)
        if isinstance(record, Document):
            numbers["mentions"] += len(record.spans)
            numbers["relations"] += len(record.relations)
            numbers["overlapping"] += overlapping(record.spans)
            numbers["discontinuous"] += sum(span.discontinuous for span in record.spans)
            if self._kind is Kind.TAGGING:
                labels = [span.label for span in record.spans]
            elif self._kind is Kind.RELATION:
                labels = [relation.label for relation in record.relations]
                self._entities.update(span.label for span in record.spans)
        self._labels.update(labels)

    @property
    def labels(self) -> list[str]:
        """The labels that occur, sorted."""
        return sorted(self._labels)

    def as_dict(self) -> dict[str, Any]:
        """The counts, ready for JSON; numbers that cannot occur in this kind of task are left out."""
        shown = ["documents"]
        if self._kind in {Kind.TAGGING, Kind.RELATION}:
            shown += ["mentions", "overlapping", "discontinuous"]
        if self._kind is Kind.RELATION:
            shown.append("relations")
        if self._kind is Kind.MULTILABEL:
            shown.append("assigned")
        found: dict[str, Any] = {name: self._numbers[name] for name in shown}
        for name, counts in (("labels", self._labels), ("entities", self._entities)):
            if counts:
                found[name] = dict(sorted(counts.items()))
        return found


def overlapping(spans: Sequence[Span]) -> int:
    """How many mentions share a character with another mention."""
    pieces = sorted((start, end, number) for number, span in enumerate(spans) for start, end in span.fragments)
    shared: set[int] = set()
    open_pieces: list[tuple[int, int]] = []
    for start, end, number in pieces:
        open_pieces = [(stop, other) for stop, other in open_pieces if stop > start]
        if open_pieces:
            shared.add(number)
            shared.update(other for _, other in open_pieces)
        open_pieces.append((end, number))
    return len(shared)
