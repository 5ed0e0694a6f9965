"""The stream of packed training batches: a pure function of seed and position.

Documents are cut into pieces that fit the context, each with its special tokens; the pieces of an epoch are shuffled and laid end to
end; batch k is tokens k·T to (k+1)·T of that line, across epochs without a gap. Nothing is dropped, nothing is padded, and the
order does not depend on the number of processes. A piece that a batch border cuts goes on at the start of the next batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from osler.core.seeding import generator
from osler.stages.pretrain.tokens import TokenisedDocuments


class PieceStream:
    """Pieces of documents in a shuffled order that depends only on seed and epoch."""

    def __init__(
        self,
        documents: TokenisedDocuments,
        max_length: int,
        prefix: Sequence[int],
        suffix: Sequence[int],
        seed: int | None,
    ) -> None:
        self.ids = documents.ids
        self.prefix = np.array(prefix, dtype=np.int64)
        self.suffix = np.array(suffix, dtype=np.int64)
        self.seed = seed
        self.starts, self.sizes = _pieces(documents.bounds, max_length - len(prefix) - len(suffix))
        self.lengths = self.sizes + len(prefix) + len(suffix)
        self.epoch_tokens = int(self.lengths.sum())
        self._cached: tuple[int, np.ndarray, np.ndarray] | None = None

    def sequences(self, start: int, end: int) -> list[np.ndarray]:
        """The sequences that make up tokens `start` to `end` of the endless line; those at the edges may be parts."""
        return list(self._walk(start, end))

    def usual_sequences(self, tokens: int) -> int:
        """A number of sequences that a stretch of so many tokens seldom passes."""
        return int(1.3 * tokens * len(self.lengths) / self.epoch_tokens) + 8

    def _walk(self, start: int, end: int) -> Iterator[np.ndarray]:
        while start < end:
            epoch, inside = divmod(start, self.epoch_tokens)
            order, ends = self._epoch(epoch)
            place = int(np.searchsorted(ends, inside, side="right"))
            piece = self._piece(int(order[place]))
            begin = inside - (int(ends[place]) - len(piece))
            taken = piece[begin : begin + (end - start)]
            yield taken
            start += len(taken)

    def _epoch(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        if self._cached is None or self._cached[0] != epoch:
            count = len(self.lengths)
            order = np.arange(count) if self.seed is None else generator(self.seed, "pieces", epoch).permutation(count)
            self._cached = (epoch, order, np.cumsum(self.lengths[order]))
        return self._cached[1], self._cached[2]

    def _piece(self, number: int) -> np.ndarray:
        start, size = self.starts[number], self.sizes[number]
        return np.concatenate([self.prefix, self.ids[start : start + size].astype(np.int64), self.suffix])


def _pieces(bounds: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Start and size of every piece: documents in order, each cut into as few pieces as fit, all but its last full."""
    lengths = np.diff(bounds)
    counts = -(-lengths // room)
    document = np.repeat(np.arange(len(lengths)), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = bounds[:-1][document] + within * room
    sizes = np.minimum(room, bounds[1:][document] - starts)
    return starts, sizes
