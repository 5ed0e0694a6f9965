"""Where the records of a task come from: one file a source, chosen by the card's `source.reader`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, Self

from osler.core.registry import Registry
from osler.formats.sources import Source
from osler.tasks.card import TaskCard
from osler.text.document import Record


class TaskSource(Protocol):
    """The input of one task, open for reading."""

    @property
    def digest(self) -> str:
        """A hash of all that decides the records beside the card."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def records(self) -> Iterator[tuple[str, Record]]:
        """Every record with the split it belongs to."""

    def facts(self) -> dict[str, Any]:
        """What was found on the way, once all records are read: defects by split, splits that are not there."""


SourceOpener = Callable[[TaskCard, Source | None, bool], TaskSource]
"""Opens the input of a task; the last argument says whether a folder of another name than the card's will do."""

SOURCES = Registry(
    "sources",
    {"clinic": "osler.clinic.source:ClinicSource", "files": "osler.tasks.sources.files:FileSource"},
)


def open_source(card: TaskCard, given: Source | None, *, anywhere: bool = True) -> TaskSource:
    """The input of a task from the folder, archive or tree given."""
    opener: SourceOpener = SOURCES.get(card.source.reader)
    return opener(card, given, anywhere)
