"""Records of the embedded synthetic clinic, shaped to a task's card."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from osler.core.config import Recipe, validate
from osler.tasks.card import Kind, TaskCard
from osler.text.document import Document, Record


class ClinicOptions(Recipe):
    """Options of the `clinic` source: what is generated, and how much of it."""

    produce: Literal["notes", "entailment", "similarity"] = "notes"
    seed: int = 0
    train: int = Field(200, ge=1)
    dev: int = Field(40, ge=1)
    test: int = Field(80, ge=1)


def read(card: TaskCard, folder: Path | None = None) -> dict[str, Iterable[Record]]:
    """The three splits; nothing is read from `folder`, the clinic is inside osler."""
    options = validate(ClinicOptions, card.source.options, where=f"task {card.name}: source.options")
    sizes = {"train": options.train, "dev": options.dev, "test": options.test}
    return {split: _records(card, options, split, size) for split, size in sizes.items()}


def _records(card: TaskCard, options: ClinicOptions, split: str, size: int) -> Iterator[Record]:
    for record in _maker(options.produce)(size, language=card.language, seed=options.seed, split=split):
        if isinstance(record, Document) and card.kind is Kind.CLASSIFICATION:
            record = record.with_(labels=(record.meta["specialty"],))
        yield record


def _maker(produce: str) -> Callable[..., Iterable[Record]]:
    if produce == "notes":
        from osler.clinic.notes import notes

        return notes
    from osler.clinic.pairs import entailment_pairs, similarity_pairs

    return entailment_pairs if produce == "entailment" else similarity_pairs
