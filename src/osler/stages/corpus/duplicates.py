"""Exact duplicates: of all documents with the same text, the first in input order stays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from osler.stages.corpus.tables import read_columns


def documents_to_keep(parts: Sequence[Path], remove_duplicates: bool) -> list[NDArray[np.bool_]]:
    """For the kept documents of every part, in input order, which of them are no later copy of another."""
    digests = [_digests(part) for part in parts]
    together = np.concatenate([np.empty((0, 2), dtype="<u8"), *digests])
    first = first_copies(together) if remove_duplicates else np.ones(len(together), dtype=np.bool_)
    ends = np.cumsum([len(digest) for digest in digests], dtype=np.int64)
    return np.split(first, ends)[: len(parts)]


def first_copies(digests: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """For an (n, 2) array of 128-bit digests in input order, which rows are the first with their value."""
    first = np.ones(len(digests), dtype=np.bool_)
    # The sort is stable, so equal digests stay in input order and only the later ones are unmarked.
    order = np.lexsort((digests[:, 0], digests[:, 1]))
    ordered = digests[order]
    first[order[1:]] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return first


def _digests(part: Path) -> NDArray[np.uint64]:
    pieces = [np.empty((0, 2), dtype="<u8")]
    for chunk in read_columns(part, "digest")["digest"].chunks:
        if len(chunk):
            pieces.append(np.frombuffer(chunk.buffers()[1], dtype="<u8").reshape(-1, 2)[chunk.offset :][: len(chunk)])
    return np.concatenate(pieces)
