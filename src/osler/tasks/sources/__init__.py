"""Where the records of a task come from: one file per source, chosen by the card's `source.reader`."""

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
        """Hash of everything except the card that determines the records."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def records(self) -> Iterator[tuple[str, Record]]:
        """Yield every record with its split."""

    def facts(self) -> dict[str, Any]:
        """What was found while reading: defects by split, missing splits. Call it after `records`."""


SOURCES = Registry(
    "sources", {"clinic": "osler.clinic.source:ClinicSource", "files": "osler.tasks.sources.files:FileSource"}
)


def open_source(card: TaskCard, given: Source | None, *, anywhere: bool = True) -> TaskSource:
    """Open the input of a task: a folder, an archive or a tree. `anywhere` allows a folder that the card does not name."""
    opener: Callable[[TaskCard, Source | None, bool], TaskSource] = SOURCES.get(card.source.reader)
    return opener(card, given, anywhere)
