"""Where the records of a task come from: one file a source, chosen by the card's `source.reader`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from osler.core.registry import Registry
from osler.tasks.card import Kind, TaskCard
from osler.text.document import Document, Record

Splits = Mapping[str, Iterable[Record]]
SourceReader = Callable[[TaskCard, Path | None], Splits]

SOURCES = Registry("sources", {"clinic": "osler.tasks.sources.clinic:read"})


def narrow(card: TaskCard, record: Record) -> Record:
    """Keep of a record only what the task is about, so that a task artifact never carries another task's gold."""
    if not isinstance(record, Document):
        return record
    if card.kind is Kind.TAGGING:
        return record.only(card.labels).with_(relations=(), labels=(), value=None)
    if card.kind is Kind.RELATION:
        kept = record.only(card.entity_labels)
        relations = tuple(relation for relation in kept.relations if relation.label in card.labels)
        return kept.with_(relations=relations, labels=(), value=None)
    if card.kind is Kind.REGRESSION:
        return record.with_(spans=(), relations=(), labels=())
    return record.with_(spans=(), relations=(), value=None)
