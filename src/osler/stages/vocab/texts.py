"""The texts of a corpus artifact, a row group of a shard at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from osler.core.artifact import Artifact
from osler.core.extras import require

_ROWS = 512


def shards(corpus: Artifact) -> list[Path]:
    """The shards, in the order of their documents."""
    return sorted((corpus.path / "shards").glob("shard-*.parquet"))


def batches(corpus: Artifact) -> Iterator[list[tuple[str, str]]]:
    """Source and text of every document, in order, some hundred at a time."""
    parquet = require("pyarrow.parquet", "corpus")
    for path in shards(corpus):
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_ROWS, columns=["source", "text"], use_threads=False):
                yield list(zip(batch.column("source").to_pylist(), batch.column("text").to_pylist(), strict=True))
