"""Keep only the latest revision of each record, for sources that republish or delete records.

Each part writes down the revisions it has read. Once all parts are done, revisions are compared for a share of the records at a
time, so memory is bounded for any number of records. The result depends only on the input, not on the parts or their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from osler.core.extras import require
from osler.stages.corpus.remaining import Remaining, read_columns

pq = require("pyarrow.parquet", "corpus")

AT_ONCE = 4_000_000
"""Revisions that are compared at once; about 100 bytes of memory each."""
_COLUMNS = ("source", "record", "number", "sequence", "position")

Numbers = NDArray[np.int64]


def remove_outdated(remaining: Remaining, files: Sequence[Path]) -> None:
    """Remove documents that a later revision replaced or withdrew, given the file of revisions of each part."""
    total = sum(pq.read_metadata(path).num_rows for path in files)
    shares = -(-total // AT_ONCE)
    found = [_outdated(_revisions(files, share, shares)) for share in range(shares)]
    if not found:
        return
    old, new = (np.concatenate(side) for side in zip(*found, strict=True))
    numbers, latest = _document_numbers(remaining, old), _document_numbers(remaining, new)
    latest[new[:, 1] < 0] = -2  # withdrawn; -1 is a document that a filter removed
    order = np.argsort(numbers, kind="stable")
    order = order[numbers[order] >= 0]
    reasons = ["revision.withdrawn" if number == -2 else "revision.replaced" for number in latest[order]]
    remaining.remove("revisions", numbers[order], reasons, np.maximum(latest[order], -1))


def _revisions(files: Sequence[Path], share: int, shares: int) -> Numbers:
    """Return rows of (source, record, number, part, sequence, position) for one share of the records, in input order."""

    def rows() -> Iterator[Numbers]:
        yield np.empty((0, 6), dtype=np.int64)
        for index, path in enumerate(files):
            table = read_columns(path, *_COLUMNS)
            source, record, number, sequence, position = (table[name].to_numpy() for name in _COLUMNS)
            every = np.stack([source, record, number, np.full_like(record, index), sequence, position], axis=1)
            yield every[record % shares == share]

    return np.concatenate(list(rows()))


def _outdated(revisions: Numbers) -> tuple[Numbers, Numbers]:
    """Return (part, position) of every outdated document, and of a document of the latest revision of its record."""
    source, record, number, part, sequence, _ = revisions.T
    ordered = revisions[np.lexsort((sequence, part, number, record, source))]
    last = np.ones(len(ordered), dtype=np.bool_)
    last[:-1] = (ordered[1:, :2] != ordered[:-1, :2]).any(axis=1)
    ends = np.flatnonzero(last)
    latest = ordered[ends[np.searchsorted(ends, np.arange(len(ordered)))]]
    old = (ordered[:, 3:5] != latest[:, 3:5]).any(axis=1) & (ordered[:, 5] >= 0)
    return ordered[old][:, [3, 5]], latest[old][:, [3, 5]]


def _document_numbers(remaining: Remaining, places: Numbers) -> Numbers:
    """Return the number of the document at each (part, position), or -1 if it was not kept."""
    numbers = np.full(len(places), -1, dtype=np.int64)
    for part in np.unique(places[:, 0]).tolist():
        positions = np.append(remaining.column(part, "position")["position"].to_numpy(), -1)
        here = np.flatnonzero((places[:, 0] == part) & (places[:, 1] >= 0))
        rows = np.searchsorted(positions[:-1], places[here, 1])
        kept = positions[rows] == places[here, 1]
        numbers[here[kept]] = remaining.starts[part] + rows[kept]
    return numbers
