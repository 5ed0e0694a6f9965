"""What every fake distribution agrees on: how much is asked for, what is written where, and how it is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from osler.core.errors import OutputError
from osler.formats.output import META, RENAMED
from osler.formats.registry import get_format
from osler.text.document import Document, Record

R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class Order:
    """How many training records are asked for, and the seed they come from."""

    n: int
    seed: int

    def share(self, part: int, whole: int) -> int:
        """As many as `part` is to `whole` in the real release, one at least."""
        return max(1, round(self.n * part / whole))


@dataclass(frozen=True)
class Package:
    """A folder (or file) of the release as it is when unpacked, and the archive it is shipped in."""

    folder: str
    archive: str


@dataclass(frozen=True)
class Distribution:
    """One release: `make` writes its unpacked form into an empty folder and counts what it wrote."""

    name: str
    title: str
    format: str
    """The reader of `osler.formats` that reads it."""
    splits: Mapping[str, tuple[str, ...]]
    """The files of each split, as shell patterns that hold for folders and archives."""
    packages: tuple[Package, ...]
    make: Callable[[Order, Path], Tally]
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the reader."""


class Tally:
    """Counts records as they pass to a writer: how many in each split, and how many of each label."""

    def __init__(self) -> None:
        self.records: Counter[str] = Counter()
        self.labels: dict[str, Counter[str]] = {}

    def through(self, split: str, records: Iterable[R]) -> Iterator[R]:
        """Pass records on and count them."""
        labels = self.labels.setdefault(split, Counter())
        for record in records:
            self.records[split] += 1
            labels.update(labels_of(record))
            yield record

    def counts(self) -> dict[str, Any]:
        """The counts for a manifest."""
        detail = {f"{split}_detail": dict(sorted(self.labels[split].items())) for split in self.labels}
        return {**self.records, **detail}


def labels_of(record: Record) -> list[str]:
    """Every label in a record: its own, its spans' and its relations'."""
    found = list(record.labels)
    if isinstance(record, Document):
        found += [span.label for span in record.spans] + [relation.label for relation in record.relations]
    return found


def save(format_name: str, records: Iterable[Record], path: Path) -> None:
    """Write records in one of osler's formats; a fake distribution must hold all that its records hold."""
    loss = get_format(format_name).write(records, path)
    if set(loss.counts) - {META, RENAMED}:
        raise OutputError(f"the {format_name} files lost something: {loss}", where=path)
