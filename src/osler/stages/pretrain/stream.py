"""The stream of packed training batches: a pure function of seed and position.

Documents are cut into pieces that fit the context, each with its special tokens; the pieces of an epoch are shuffled and laid end to
end; batch k is tokens k·T to (k+1)·T of that line, across epochs without a gap. Nothing is dropped, nothing is padded, and the
order does not depend on the number of processes. A piece that a batch border cuts goes on at the start of the next batch.

What is in memory is 12 bytes a piece and 12 more for the order of the current epoch: 2.4 GB for 100 million pieces. Shuffling so
many takes up to half a minute at the start of an epoch, which then lasts for hours. Source weights add some bytes a document.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from osler.core.seeding import generator
from osler.stages.pretrain.documents import TokenisedDocuments, ramps
from osler.stages.pretrain.weights import Repetition


@dataclass(frozen=True)
class Stretch:
    """Some sequences end to end, with the length of each; those at the edges may be parts of a piece."""

    ids: np.ndarray
    lengths: np.ndarray


@dataclass(frozen=True)
class _Epoch:
    number: int
    start: int
    order: np.ndarray
    ends: np.ndarray

    @property
    def end(self) -> int:
        return self.start + int(self.ends[-1])


class PieceStream:
    """Pieces of documents in a shuffled order that depends only on seed and epoch; without a seed, in their own order.

    `weights` says by the name of a source how often its documents are read in an epoch, on average; 1 where it says nothing.
    """

    def __init__(
        self,
        documents: TokenisedDocuments,
        max_length: int,
        prefix: Sequence[int],
        suffix: Sequence[int],
        seed: int | None,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        self.documents = documents
        self.prefix = np.array(prefix, dtype=np.int64)
        self.suffix = np.array(suffix, dtype=np.int64)
        self.seed = seed
        room = max_length - len(prefix) - len(suffix)
        self._pieces_of = -(-documents.lengths // room)
        self.starts, self.sizes = _pieces(documents, self._pieces_of, room)
        numbers = [float((weights or {}).get(name, 1.0)) for name in documents.names]
        self._repeated: Repetition | None = None
        if seed is not None and any(number != 1.0 for number in numbers):
            tokens = documents.lengths + self._pieces_of.astype(np.int64) * self._frame
            self._repeated = Repetition(documents.sources, numbers, tokens, seed)
        self.slot_statistics = self._length_statistics(np.array(numbers))
        self._current: _Epoch | None = None

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of every piece, its special tokens included."""
        return self.sizes + self._frame

    @cached_property
    def epoch_tokens(self) -> int:
        """Tokens of the first epoch; with whole weights, or none, all epochs have as many."""
        if self._repeated is not None:
            return self._repeated.start(1)
        return int(self.sizes.sum(dtype=np.int64)) + len(self.sizes) * self._frame

    def epoch_start(self, epoch: int) -> int:
        """The place of an epoch's first token."""
        return epoch * self.epoch_tokens if self._repeated is None else self._repeated.start(epoch)

    def cut(self, start: int, end: int) -> Stretch:
        """The sequences that make up tokens `start` to `end` of the endless line."""
        parts = []
        while start < end:
            epoch = self._epoch_at(start)
            stop = min(end, epoch.end)
            parts.append(self._take(epoch, start - epoch.start, stop - epoch.start))
            start = stop
        if len(parts) == 1:
            return parts[0]
        return Stretch(np.concatenate([part.ids for part in parts]), np.concatenate([part.lengths for part in parts]))

    def usual_sequences(self, tokens: int) -> int:
        """A number of sequences that a stretch of so many tokens hardly ever passes, in multiples of eight.

        Pieces come in random order, so their number in a stretch is nearly normal (a renewal process): six deviations.
        """
        mean, deviation = self.slot_statistics
        expected = tokens / mean + 6 * deviation * math.sqrt(tokens / mean**3) + 2
        return -(-math.ceil(expected) // 8) * 8

    @property
    def _frame(self) -> int:
        return len(self.prefix) + len(self.suffix)

    def _length_statistics(self, weights: np.ndarray) -> tuple[float, float]:
        lengths = self.lengths
        if self._repeated is None:
            return float(lengths.mean()), float(lengths.std())
        seen = np.repeat(weights[self.documents.sources], self._pieces_of)
        mean = float(np.average(lengths, weights=seen))
        return mean, math.sqrt(float(np.average((lengths - mean) ** 2, weights=seen)))

    def _epoch_at(self, place: int) -> _Epoch:
        if self._current is None or not self._current.start <= place < self._current.end:
            weighted = self._repeated
            number = place // self.epoch_tokens if weighted is None else weighted.epoch_at(place)
            start = self.epoch_start(number)
            self._current = None  # the memory of the old order is needed for the new one
            order = self._order(number)
            self._current = _Epoch(number, start, order, np.cumsum(self.sizes[order] + self._frame, dtype=np.int64))
        return self._current

    def _order(self, epoch: int) -> np.ndarray:
        order = np.arange(len(self.sizes), dtype=np.int32 if len(self.sizes) < 2**31 else np.int64)
        if self._repeated is not None:
            order = np.repeat(order, np.repeat(self._repeated.times(epoch), self._pieces_of))
        if self.seed is not None:
            generator(self.seed, "pieces", epoch).shuffle(order)
        return order

    def _take(self, epoch: _Epoch, start: int, stop: int) -> Stretch:
        """Tokens `start` to `stop` of one epoch: whole pieces first, then the two edges cut."""
        first = int(np.searchsorted(epoch.ends, start, side="right"))
        last = int(np.searchsorted(epoch.ends, stop, side="left")) + 1
        ids, lengths = self._laid(epoch.order[first:last])
        begin = start - (int(epoch.ends[first]) - int(lengths[0]))
        lengths[-1] -= int(epoch.ends[last - 1]) - stop
        lengths[0] -= begin
        return Stretch(ids[begin : begin + stop - start], lengths)

    def _laid(self, pieces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Some pieces end to end with their special tokens, and their lengths."""
        sizes = self.sizes[pieces].astype(np.int64)
        lengths = sizes + self._frame
        begins = np.cumsum(lengths) - lengths
        ids = np.empty(int(lengths.sum()), dtype=np.int64)
        body = np.ones(len(ids), dtype=bool)
        for place, special in [
            *((begins + offset, token) for offset, token in enumerate(self.prefix)),
            *((begins + lengths - len(self.suffix) + offset, token) for offset, token in enumerate(self.suffix)),
        ]:
            ids[place] = special
            body[place] = False
        ids[body] = self.documents.gather(self.starts[pieces], sizes)
        return ids, lengths


def _pieces(documents: TokenisedDocuments, counts: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Start and size of every piece: documents in order, each cut into as few pieces as fit, all but its last full."""
    offset = ramps(counts) * room
    starts = np.repeat(documents.starts, counts) + offset
    sizes = np.minimum(room, np.repeat(documents.lengths, counts) - offset)
    return starts, sizes.astype(np.int32)
