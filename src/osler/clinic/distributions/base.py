"""A fake official release: its description, and the writer that all of them share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from osler.core.errors import OutputError
from osler.formats.base import configure
from osler.formats.output import META, RENAMED
from osler.formats.registry import get_format
from osler.text.document import Document, Record

R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class Distribution:
    """One release, as data/distributions.toml describes it; `make` writes its unpacked form into an empty folder."""

    name: str
    title: str
    format: str
    sizes: Mapping[str, int]
    splits: Mapping[str, Sequence[str]]
    packages: Mapping[str, str]
    make: Callable[[DistributionWriter], None]
    options: Mapping[str, Any] = field(default_factory=dict)
    tasks: Sequence[str] = ()
    releases: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What differs in each release, by name, if there are several. The first one is the default."""


class DistributionWriter:
    """Writes `n` training records, other splits in proportion, and counts records and labels."""

    def __init__(self, distribution: Distribution, folder: Path, n: int, seed: int) -> None:
        self.folder = folder
        self.seed = seed
        self.packages = tuple(distribution.packages)
        sizes = distribution.sizes
        self.sizes = {split: max(1, round(n * size / sizes["train"])) for split, size in sizes.items()}
        self.records: Counter[str] = Counter()
        # The official brat releases have no annotation.conf.
        options = {"configuration": False} if distribution.format == "brat" else {}
        self._format = configure(get_format(distribution.format), options)
        # The reader removes this prefix, so labels are counted without it.
        self._prefix: str = distribution.options.get("label_prefix", "")
        self._labels: dict[str, Counter[str]] = {}

    def count(self, split: str, record: Record) -> None:
        self.records[split] += 1
        labels = (label.removeprefix(self._prefix) for label in labels_of(record))
        self._labels.setdefault(split, Counter()).update(labels)

    def counted(self, split: str, records: Iterable[R]) -> Iterator[R]:
        """Pass records on and count them."""
        for record in records:
            self.count(split, record)
            yield record

    def save(self, split: str, records: Iterable[Record], path: str) -> None:
        """Count records and write them in the format of the release; raise an error if anything would be lost."""
        loss = self._format.write(self.counted(split, records), self.folder / path)
        if set(loss.counts) - {META, RENAMED}:
            raise OutputError(f"the format cannot hold everything in the records: {loss}", where=self.folder / path)

    def counts(self) -> dict[str, Any]:
        return {**self.records, **{f"{split}_detail": dict(sorted(c.items())) for split, c in self._labels.items()}}


def labels_of(record: Record) -> list[str]:
    """Every label in a record: its own, its spans' and its relations'."""
    found = list(record.labels)
    if isinstance(record, Document):
        found += [span.label for span in record.spans] + [relation.label for relation in record.relations]
    return found


def edit_tags(folder: Path, *changes: tuple[str, str]) -> None:
    """Replace strings after the text of i2b2 XML files, to match the official files exactly."""
    for path in sorted(folder.glob("*.xml")):
        head, close, tags = path.read_text(encoding="utf-8").partition("]]></TEXT>")
        for old, new in changes:
            tags = tags.replace(old, new)
        path.write_text(head + close + tags, encoding="utf-8")
