"""Reduce records to what a task needs, and count their contents."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from osler.formats.offsets import is_inside_word, too_many
from osler.tasks.card import Kind, TaskCard
from osler.text.document import YES, Document, Record, Relation, Span

_Labelled = TypeVar("_Labelled", Span, Relation)


class RecordReducer:
    """Renames labels as the card says and drops what it does not list; `left_out` counts the drops by label."""

    def __init__(self, card: TaskCard) -> None:
        self.card = card
        self.left_out: Counter[str] = Counter()
        self._names: dict[str, str] = {}

    def __call__(self, record: Record) -> Record:
        card = self.card
        if not isinstance(record, Document) or card.kind is Kind.CLASSIFICATION:
            labels = tuple(map(self._name, record.labels))
            bare = {"spans": (), "relations": ()} if isinstance(record, Document) else {}
            dropped = {"labels": ()} if card.kind is Kind.REGRESSION else {"value": None}
            return record.with_(**{"labels": labels, **dropped, **bare})
        if card.kind is Kind.TAGGING:
            spans = self._kept(record.spans, card.labels)
            return record.with_(spans=spans, relations=(), labels=(), value=None)
        if card.kind is Kind.RELATION:
            return self._related(record)
        if card.kind is Kind.ATTRIBUTES:
            return self._qualified(record)
        if card.kind is Kind.REGRESSION:
            return record.with_(spans=(), relations=(), labels=())
        labels = tuple(dict.fromkeys(label for name in record.labels if (label := self._listed(name))))
        spans = self._kept(record.spans, card.labels) if card.sentence_level else ()
        unique = tuple({span.key: span for span in reversed(spans)}.values())[::-1]
        return record.with_(labels=labels, spans=unique, relations=(), value=None)

    def _related(self, record: Document) -> Document:
        spans = self._kept(record.spans, self.card.entity_labels)
        ids = {span.id for span in spans}
        relations: dict[tuple[str, str, str], Relation] = {}
        for relation in self._kept(record.relations, self.card.labels):
            if relation.head not in ids or relation.tail not in ids:
                self.left_out["relations of other mentions"] += 1
            elif relation.key in relations:
                # Two fine-grained types on one pair may map to the same relation.
                self.left_out["relations given twice"] += 1
            else:
                relations[relation.key] = relation
        return record.with_(spans=spans, relations=tuple(relations.values()), labels=(), value=None)

    def _qualified(self, record: Document) -> Document:
        """Keep the mentions of the card with the attributes that it lists, each with the value "yes"."""
        spans = record.spans
        if self.card.mentions:
            spans = self._kept(spans, self.card.mentions)
        named = []
        for span in spans:
            found = {self._name(attribute_label(name, value)) for name, value in span.attributes.items()}
            kept = {label: YES for label in self.card.labels if label in found}
            named.append(replace(span, attributes=kept))
        return record.with_(spans=tuple(named), relations=(), labels=(), value=None)

    def _kept(self, items: Iterable[_Labelled], labels: Iterable[str]) -> tuple[_Labelled, ...]:
        wanted = set(labels)
        discover = self.card.discover_labels and self.card.kind is Kind.TAGGING
        kept = []
        for item in items:
            label = self._name(item.label)
            if label in wanted or discover:
                kept.append(item if label == item.label else replace(item, label=label))
            else:
                self.left_out[item.label] += 1
        return tuple(kept)

    def _listed(self, name: str) -> str | None:
        label = self._name(name)
        if label in self.card.labels or (label and self.card.discover_labels):
            return label
        self.left_out[name] += 1
        return None

    def _name(self, official: str) -> str:
        """Return the task's name of an official label; "" if the card maps it to nothing."""
        if official not in self._names:
            mapping = self.card.label_map
            fitting = [new for old, new in mapping.items() if "*" in old and fnmatch.fnmatchcase(official, old)]
            self._names[official] = mapping.get(official, fitting[0] if fitting else official)
        return self._names[official]


def attribute_label(name: str, value: str) -> str:
    """The official label of an attribute: NAME=VALUE, or just NAME for a flag, as in brat."""
    return name if value in (YES, "") else f"{name}={value}"


class RecordCounts:
    """Counts records and what they hold."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._numbers: Counter[str] = Counter()
        self._labels: Counter[str] = Counter()
        self._entities: Counter[str] = Counter()

    def add(self, record: Record) -> None:
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
            elif self._kind is Kind.ATTRIBUTES:
                labels = [name for span in record.spans for name in span.attributes]
                self._entities.update(span.label for span in record.spans)
            elif self._kind is Kind.RELATION:
                labels = [relation.label for relation in record.relations]
                self._entities.update(span.label for span in record.spans)
        self._labels.update(labels)

    @property
    def labels(self) -> list[str]:
        return sorted(self._labels)

    def as_dict(self) -> dict[str, Any]:
        """Return the counts for JSON, without numbers that cannot occur in this kind of task."""
        shown = ["documents"]
        if self._kind in {Kind.TAGGING, Kind.RELATION, Kind.ATTRIBUTES}:
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


class OffsetCounts:
    """Counts how mentions align with their texts. Documents check bounds and references themselves."""

    # Names that manifests and `osler tasks check --json` write.
    BLANK = "on blanks alone"
    BLANK_EDGE = "with blanks at an edge"
    INSIDE = "beginning or ending inside a word"
    MISMATCH = "whose own text differs from the text there"

    def __init__(self) -> None:
        self._numbers: Counter[str] = Counter()

    def add(self, record: Record) -> None:
        if not isinstance(record, Document):
            return
        for span in record.spans:
            text = record.text[span.start : span.end]
            self._numbers["mentions"] += 1
            self._numbers[self.BLANK] += not text.strip()
            self._numbers[self.BLANK_EDGE] += text != text.strip()
            self._numbers[self.INSIDE] += any(is_inside_word(record.text, *part) for part in span.fragments)

    def as_dict(self, problems: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
        """Return the counts for JSON; `problems` are the defects by split."""
        found = {name: self._numbers[name] for name in ("mentions", self.BLANK, self.BLANK_EDGE, self.INSIDE)}
        found[self.MISMATCH] = sum(kinds.get("text-mismatch", 0) for kinds in problems.values())
        return found

    @classmethod
    def misaligned(cls, counts: Mapping[str, int], left_out: Mapping[str, int]) -> bool:
        """Whether the offsets must be wrong throughout; `left_out` counts the mentions that the card drops, by label."""
        mentions = counts.get("mentions", 0)
        read = mentions + sum(left_out.values())
        return too_many(counts.get(cls.INSIDE, 0), mentions) or too_many(counts.get(cls.MISMATCH, 0), read)


def overlapping(spans: Sequence[Span]) -> int:
    """Count the mentions that share a character with another mention."""
    parts = sorted((start, end, number) for number, span in enumerate(spans) for start, end in span.fragments)
    shared: set[int] = set()
    running: list[tuple[int, int]] = []
    for start, end, number in parts:
        running = [(stop, other) for stop, other in running if stop > start]
        if running:
            shared.add(number)
            shared.update(other for _, other in running)
        running.append((end, number))
    return len(shared)
