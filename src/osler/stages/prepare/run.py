"""Read a task's records from its source, check them, and write the task artifact."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import tomli_w

from osler.core.artifact import Artifact, Workspace, produce
from osler.core.errors import InputError
from osler.core.files import write_atomic
from osler.stages.prepare.config import PrepareRecipe
from osler.tasks.card import TaskCard
from osler.tasks.catalogue import load_card
from osler.tasks.data import CARD, write_records
from osler.tasks.sources import SOURCES, narrow
from osler.text.document import Document, Record


def plan(recipe: PrepareRecipe, out: Path) -> list[str]:
    """What `run` will do, for a person."""
    card = _card(recipe)
    source = "the embedded synthetic clinic" if card.source.reader == "clinic" else str(recipe.source)
    return [
        f"prepare task {card.name} ({card.kind}, {card.language}) from {source}",
        f"write it to {out}",
    ]


def run(recipe: PrepareRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the task artifact."""
    card = _card(recipe)
    parents = {"card": _digest(card)}

    def build(work: Workspace) -> None:
        splits = SOURCES.get(card.source.reader)(card, recipe.source)
        for split, records in splits.items():
            counter = _Counter(card, split)
            count = write_records(counter.through(records), work.path / f"{split}.parquet", pairs=card.record == "pair")
            if not count:
                raise InputError(
                    f"the split {split!r} of task {card.name} is empty",
                    where=recipe.source,
                    fix="Check the source files",
                )
            work.counts[split] = count
            work.counts[f"{split}_detail"] = counter.numbers
        write_atomic(work.path / CARD, tomli_w.dumps(card.resolved()))

    return produce(out, kind="task", recipe=recipe, parents=parents, build=build, force=force)


def _card(recipe: PrepareRecipe) -> TaskCard:
    card = load_card(recipe.task)
    if not recipe.options:
        return card
    source = card.source.model_copy(update={"options": {**card.source.options, **recipe.options}})
    return card.model_copy(update={"source": source})


def _digest(card: TaskCard) -> str:
    return hashlib.sha256(card.model_dump_json().encode()).hexdigest()


class _Counter:
    """Counts what passes through it, for the manifest."""

    def __init__(self, card: TaskCard, split: str) -> None:
        self.card = card
        self.split = split
        self.numbers: dict[str, Any] = {}

    def through(self, records: Iterable[Record]) -> Iterator[Record]:
        """Pass records on, narrowed to the task, and count them."""
        for record in records:
            narrowed = narrow(self.card, record)
            for label in _labels(narrowed):
                self.numbers[label] = self.numbers.get(label, 0) + 1
            yield narrowed


def _labels(record: Record) -> list[str]:
    found = list(record.labels)
    if isinstance(record, Document):
        found += [span.label for span in record.spans] + [relation.label for relation in record.relations]
    return found
