"""Packed training and validation batches: a pure function of seed and position."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from osler.artifacts.corpus import Corpus
from osler.artifacts.token_shards import TokenisedDocuments, ramps
from osler.core.errors import RecipeError, nearest
from osler.core.seeding import generator
from osler.nn.masking import IGNORED, Masker
from osler.nn.packing import Packed
from osler.stages.pretrain.config import StepBatches
from osler.train.source import Batch

_ONE = 1 << 24
"""Weights are counted in so many parts of one: whole numbers, so that no rounding adds up over epochs."""


def source_weights(corpus: Corpus, wanted: Mapping[str, float]) -> dict[str, float]:
    """The weight of every source of a corpus; a name in `wanted` that the corpus does not have is refused."""
    weights = corpus.source_weights
    for name in wanted:
        if name not in weights:
            close = nearest(name, weights)
            known = sorted(weights)
            shown = ", ".join(known[:10]) + (f" and {len(known) - 10:,} more" if len(known) > 10 else "")
            raise RecipeError(
                f"the corpus has no source {name!r}",
                where="source_weights",
                fix=f"{f'Did you mean {close!r}? ' if close else ''}Its sources: {shown}",
            )
    return weights | dict(wanted)


class Repetition:
    """How often each document is read in each epoch, so that a weight of 2.5 means 2, 3, 2, 3, … times.

    Document d has been read floor(phase_d + n · weight_d) times after n epochs. Over any number of epochs that is within one of
    n · weight. The phases of a source are evenly spread and shuffled by the seed, so that each epoch holds its share of the
    source too, drawn at random. Nothing is kept from one epoch to the next: the place of any epoch is found at once.
    """

    def __init__(self, sources: np.ndarray, weights: Sequence[float], tokens: np.ndarray, seed: int) -> None:
        self._tokens = tokens
        self._parts = np.array([max(1, round(weight * _ONE)) for weight in weights], dtype=np.int64)
        self._sources = sources
        self._phase = np.zeros(len(sources), dtype=np.int32)
        self.total = int(tokens.sum())
        self._mean = 0  # tokens of a mean epoch, in parts of one
        for number, part in enumerate(self._parts.tolist()):
            here = np.flatnonzero(sources == number)
            self._mean += int(tokens[here].sum()) * part
            if part % _ONE:
                ranks = generator(seed, "weights", number).permutation(len(here))
                self._phase[here] = ranks * _ONE // max(1, len(here))

    def times(self, epoch: int) -> np.ndarray:
        """How often each document is read in one epoch."""
        times: np.ndarray = self._read(epoch + 1) - self._read(epoch)
        return times

    def start(self, epoch: int) -> int:
        """The number of tokens in all epochs before this one."""
        return int(np.dot(self._tokens, self._read(epoch)))

    def epoch_at(self, place: int) -> int:
        """The epoch that holds the token at a place of the endless line."""
        # After n epochs the line is n mean epochs long, give or take less than every document once.
        low = max(0, (place - self.total) * _ONE // self._mean)
        high = (place + self.total) * _ONE // self._mean + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.start(middle) <= place else (low, middle)
        return low

    def _read(self, epochs: int) -> np.ndarray:
        """How often each document was read in so many epochs."""
        read: np.ndarray = (self._phase + (epochs * self._parts)[self._sources]) // _ONE
        return read


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


@dataclass(frozen=True)
class MaskedBatch:
    """What the model is called with."""

    batch: Packed
    positions: torch.Tensor
    targets: torch.Tensor


class PretrainSource:
    """The batches of the stream in order, so many an update, each masked by a stream of its own.

    `step` is a pure function of its index, for any index: a run that ends by the clock may give any number of `steps`.
    """

    static_shapes = True
    """Every batch has as many tokens and masked positions as the next: what `torch.compile` wants."""

    def __init__(
        self,
        stream: PieceStream,
        masker: Masker,
        *,
        seed: int,
        batch_tokens: int,
        accumulate: int,
        steps: int,
        max_length: int,
        ramp: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.stream = stream
        self.masker = masker
        self.seed = seed
        self.batch_tokens = batch_tokens
        self.updates = StepBatches(accumulate, ramp)
        self.steps = steps
        self.max_length = max_length
        self.slots = stream.usual_sequences(batch_tokens)

    def __len__(self) -> int:
        return self.steps

    def step(self, index: int) -> Sequence[int]:
        """The numbers of the step's batches in the stream."""
        return self.updates.batches(index)

    def tokens_after(self, steps: int) -> int:
        """The tokens that so many steps see."""
        return self.updates.batches_before(steps) * self.batch_tokens

    def steps_for(self, tokens: float) -> int:
        """The whole steps that so many tokens are enough for, at least one."""
        return max(1, self.updates.whole_within(int(tokens // self.batch_tokens)))

    def load(self, ref: int) -> Batch:
        """Cut one batch out of the stream and mask it."""
        stretch = self.stream.cut(ref * self.batch_tokens, (ref + 1) * self.batch_tokens)
        rng = generator(self.seed, "mask", ref)
        return masked_batch(stretch, self.masker, rng, self.max_length, self.slots)


def masked_batch(
    stretch: Stretch,
    masker: Masker,
    rng: np.random.Generator,
    max_length: int,
    slots: int,
) -> Batch:
    """Mask sequences and pack them. Room is kept for `slots` sequences, or a multiple of it, so that shapes seldom change."""
    count = len(stretch.lengths)
    room = -(-count // slots) * slots
    ends = np.full(room + 1, len(stretch.ids), dtype=np.int32)
    ends[0] = 0
    np.cumsum(stretch.lengths, out=ends[1 : count + 1])
    masked = masker.apply(stretch.ids, rng, ends[:count])
    # The same as osler.nn.packing.pack, for ids that lie end to end already.
    packed = Packed(
        input_ids=torch.from_numpy(masked.ids),
        position_ids=torch.from_numpy(ramps(stretch.lengths)),
        cu_seqlens=torch.from_numpy(ends),
        max_length=max_length,
        num_sequences=count,
    )
    payload = MaskedBatch(packed, torch.from_numpy(masked.positions), torch.from_numpy(masked.targets))
    return Batch(payload, weight=float((masked.targets != IGNORED).sum()), tokens=len(stretch.ids))


def validation_batches(
    stream: PieceStream, masker: Masker, *, batch_tokens: int, limit: int, max_length: int
) -> Iterator[Batch]:
    """The same batches with the same masks every time, `limit` tokens in all, spread evenly: sources lie one after the other."""
    total = min(limit, stream.epoch_tokens)
    sizes = [min(batch_tokens, total - start) for start in range(0, total, batch_tokens)]
    between = (stream.epoch_tokens - total) // len(sizes) if sizes else 0
    for number, size in enumerate(sizes):
        start = number * (batch_tokens + between)
        stretch = stream.cut(start, start + size)
        rng = generator(0, "validation", number)
        yield masked_batch(stretch, masker, rng, max_length, stream.usual_sequences(batch_tokens))
