"""The corpus itself: Parquet shards of documents in input order.

Which documents stand in which shard follows from their sizes alone, so shards can be written apart, in any order, and
an interrupted run writes only those that are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osler.core.extras import require
from osler.stages.corpus.parts import Part
from osler.stages.corpus.tables import GROUP_BYTES, parquet_writer, regrouped

SHARD_COLUMNS = ("id", "text", "source", "language")


@dataclass(frozen=True)
class Take:
    """Rows to take from a part: those of `mask` that are true, counted from `start`."""

    part: Path
    start: int
    mask: NDArray[np.bool_]


@dataclass(frozen=True)
class Shard:
    """One shard to write."""

    path: Path
    takes: tuple[Take, ...]


def plan_shards(
    parts: Sequence[Part],
    keep: Sequence[NDArray[np.bool_]],
    sizes: Sequence[NDArray[np.int64]],
    folder: Path,
    limit: int,
) -> list[Shard]:
    """Fill shards with kept documents, in order, up to about `limit` bytes of text each."""
    takes: dict[int, list[Take]] = {}
    before = 0
    for part, mask, size in zip(parts, keep, sizes, strict=True):
        if not mask.any():
            continue
        kept_size = np.where(mask, size, 0)
        shard_of = (before + np.cumsum(kept_size) - kept_size) // limit
        before += int(kept_size.sum())
        edges = np.flatnonzero(np.diff(shard_of, prepend=-1)).tolist()
        for start, stop in zip(edges, [*edges[1:], len(mask)], strict=True):
            if mask[start:stop].any():
                takes.setdefault(int(shard_of[start]), []).append(Take(part.kept, start, mask[start:stop]))
    return [
        Shard(folder / f"shard-{index:05d}.parquet", tuple(takes[number])) for index, number in enumerate(sorted(takes))
    ]


def write_shard(shard: Shard) -> None:
    """Write one shard, unless an earlier run did."""
    if shard.path.exists():
        return
    pa = require("pyarrow", "corpus")
    compute = require("pyarrow.compute", "corpus")
    schema = pa.schema([(name, pa.string()) for name in SHARD_COLUMNS])
    with parquet_writer(shard.path, schema, compression="zstd", dictionary=("source", "language")) as writer:
        tables = (table for take in shard.takes for table in _rows(take))
        for group in regrouped(tables, GROUP_BYTES, lambda table: compute.binary_length(table["text"]).to_numpy()):
            writer.write_table(group)


def _rows(take: Take) -> Iterator[Any]:
    """The taken rows, one row group of the part at a time."""
    pa = require("pyarrow", "corpus")
    parquet = require("pyarrow.parquet", "corpus")
    stop = take.start + len(take.mask)
    with parquet.ParquetFile(take.part) as file:
        first = 0
        for index in range(file.num_row_groups):
            last = first + file.metadata.row_group(index).num_rows
            low, high = max(first, take.start), min(last, stop)
            if low < high:
                table = file.read_row_group(index, columns=list(SHARD_COLUMNS), use_threads=False).select(SHARD_COLUMNS)
                mask = pa.array(take.mask[low - take.start : high - take.start])
                yield table.slice(low - first, high - low).filter(mask)
            first = last
