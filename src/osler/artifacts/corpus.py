"""The corpus artifact: Parquet shards of documents, a card and a ledger of removals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from osler.core.artifact import Artifact
from osler.core.extras import require
from osler.core.files import undamaged

_ROWS = 512
_COLUMNS = ["source", "language", "text"]


class Text(NamedTuple):
    """A document: where it comes from, its language where the corpus states one, and what it says."""

    source: str
    language: str | None
    text: str


def shards(corpus: Artifact) -> list[Path]:
    """The shards, in the order of their documents."""
    return sorted((corpus.path / "shards").glob("shard-*.parquet"))


def batches(corpus: Artifact) -> Iterator[list[Text]]:
    """Every document, in order, some hundred at a time."""
    return _read(corpus, None)


def sample(corpus: Artifact, wanted: int) -> Iterator[Text]:
    """As many documents as wanted, evenly spaced over the corpus, so that every source has its share."""
    for batch in _read(corpus, wanted):
        yield from batch


def _read(corpus: Artifact, wanted: int | None) -> Iterator[list[Text]]:
    parquet, arrow = require("pyarrow.parquet", "corpus"), require("pyarrow", "corpus")
    total = int(corpus.manifest.counts.get("documents", 0))
    place = 0
    for path in shards(corpus):
        with undamaged(path), parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_ROWS, columns=_COLUMNS, use_threads=False):
                rows = batch.num_rows
                if wanted is not None and wanted < total:
                    chosen = [row for row in range(rows) if _chosen(place + row, wanted, total)]
                    batch = batch.take(arrow.array(chosen, arrow.int64()))  # typed: an empty list has no type
                yield [Text(*row) for row in zip(*(batch.column(c).to_pylist() for c in _COLUMNS), strict=True)]
                place += rows


def _chosen(place: int, wanted: int, total: int) -> bool:
    """Whether the document at this place is one of `wanted` among `total`: where the even count goes up by one."""
    return place * wanted // total != (place - 1) * wanted // total
