"""The `clinic` source of task cards: records from the synthetic clinic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, Self

from pydantic import Field

from osler.clinic.notes import notes
from osler.clinic.pairs import entailment_pairs, similarity_pairs
from osler.core.config import Recipe, validate
from osler.formats.sources import Source
from osler.tasks.card import Kind, TaskCard
from osler.text.document import Document, Record

_MAKERS: dict[str, Callable[..., Iterable[Record]]] = {
    "notes": notes,
    "entailment": entailment_pairs,
    "similarity": similarity_pairs,
}


class ClinicOptions(Recipe):
    """Options of the `clinic` source: what to generate, and how much per split."""

    produce: Literal["notes", "entailment", "similarity"] = "notes"
    seed: int = 0
    train: int = Field(200, ge=1)
    dev: int = Field(40, ge=1)
    test: int = Field(80, ge=1)


class ClinicSource:
    """Generates the three splits of a task; it reads no files."""

    digest = "clinic"

    def __init__(self, card: TaskCard, given: Source | None = None, anywhere: bool = True) -> None:
        self.card = card
        self.options = validate(ClinicOptions, card.source.options, where=f"task {card.name}: source.options")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def records(self) -> Iterator[tuple[str, Record]]:
        options = self.options
        for split, size in (("train", options.train), ("dev", options.dev), ("test", options.test)):
            for record in _MAKERS[options.produce](size, language=self.card.language, seed=options.seed, split=split):
                if isinstance(record, Document) and self.card.kind is Kind.CLASSIFICATION:
                    record = record.with_(labels=(record.meta["specialty"],))
                yield split, record

    def facts(self) -> dict[str, Any]:
        """Return no defects, because no files are read."""
        return {}
