"""Training and validation batches: a pure function of seed and position in the stream."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from osler.artifacts.corpus import Corpus
from osler.artifacts.token_shards import TokenisedDocuments, offsets_within
from osler.core.errors import RecipeError, alternatives
from osler.core.seeding import generator
from osler.nn.masking import IGNORED, Masker
from osler.nn.packing import Packed
from osler.stages.pretrain.config import StepBatches
from osler.train.source import Batch

_ONE = 1 << 24
"""Source weights are integer multiples of 1 / _ONE, so that no rounding error accumulates over epochs."""
_BANDS = 10


@dataclass(frozen=True)
class MaskedBatch:
    """Input of the objective: a packed batch, the masked positions and their original tokens."""

    batch: Packed
    positions: torch.Tensor
    targets: torch.Tensor
    second_texts: torch.Tensor | None = None
    """For text pairs: FOLLOWS, RANDOM or IGNORED for each slot in `cu_seqlens`."""


class PretrainSource:
    """Training batches, cut from the stream in order and masked.

    `step` is a pure function of its index and accepts any index, as a run with a time budget may take any number of steps.
    """

    static_shapes = True
    """All batches have the same number of tokens and masked positions, as `torch.compile` needs."""

    def __init__(
        self, stream: ChunkStream, masker: Masker, batches: StepBatches, *, steps: int, max_length: int, seed: int
    ) -> None:
        self.stream = stream
        self.masker = masker
        self.batches = batches
        self.steps = steps
        self.max_length = max_length
        self.seed = seed
        self.slots = stream.usual_sequences(batches.batch_tokens)

    def __len__(self) -> int:
        return self.steps

    def step(self, index: int) -> Sequence[int]:
        return self.batches.of(index)

    def steps_for(self, tokens: float) -> int:
        return self.batches.steps_for(tokens)

    def load(self, ref: int) -> Batch:
        size = self.batches.batch_tokens
        sequences = self.stream.cut(ref * size, (ref + 1) * size)
        return _masked_batch(sequences, self.masker, generator(self.seed, "mask", ref), self.max_length, self.slots)


def validation_batches(
    stream: ChunkStream, masker: Masker, *, batch_tokens: int, limit: int, max_length: int
) -> Iterator[Batch]:
    """Yield the same batches with the same masks on every call, up to `limit` tokens in total.

    They are spread evenly over the stream, because documents of one source are adjacent.
    """
    total = min(limit, stream.epoch_tokens)
    sizes = [min(batch_tokens, total - start) for start in range(0, total, batch_tokens)]
    gap = (stream.epoch_tokens - total) // len(sizes) if sizes else 0
    slots = stream.usual_sequences(batch_tokens)
    for number, size in enumerate(sizes):
        start = number * (batch_tokens + gap)
        sequences = stream.cut(start, start + size)
        yield _masked_batch(sequences, masker, generator(0, "validation", number), max_length, slots)


class Sequences(NamedTuple):
    """Concatenated sequences and their lengths. The first and the last may be partial chunks."""

    ids: np.ndarray
    lengths: np.ndarray
    token_types: np.ndarray | None = None
    """For text pairs: the segment of each token."""
    second_texts: np.ndarray | None = None
    """For text pairs: whether the second text follows the first; IGNORED where a sequence is cut."""


def _masked_batch(sequences: Sequences, masker: Masker, rng: np.random.Generator, max_length: int, slots: int) -> Batch:
    """Mask and pack sequences. `cu_seqlens` is padded to a multiple of `slots`, so shapes rarely change."""
    ids, lengths, token_types, second_texts = sequences
    count = len(lengths)
    ends = np.full(-(-count // slots) * slots + 1, len(ids), dtype=np.int32)
    ends[0] = 0
    np.cumsum(lengths, out=ends[1 : count + 1])
    masked = masker.apply(ids, rng, ends[:count])
    # Equivalent to osler.nn.packing.pack, for ids that are already concatenated.
    packed = Packed(
        input_ids=torch.from_numpy(masked.ids),
        position_ids=torch.from_numpy(offsets_within(lengths)),
        cu_seqlens=torch.from_numpy(ends),
        max_length=max_length,
        num_sequences=count,
        token_type_ids=None if token_types is None else torch.from_numpy(token_types),
    )
    second = None
    if second_texts is not None:
        second = torch.full((len(ends) - 1,), IGNORED)
        second[:count] = torch.from_numpy(second_texts)
    payload = MaskedBatch(packed, torch.from_numpy(masked.positions), torch.from_numpy(masked.targets), second)
    return Batch(payload, weight=float((masked.targets != IGNORED).sum()), tokens=len(ids))


@dataclass(frozen=True)
class Epoch:
    """One epoch: its first position in the stream, its chunks in order, and where each ends in the epoch."""

    start: int
    order: np.ndarray
    ends: np.ndarray

    @property
    def end(self) -> int:
        return self.start + int(self.ends[-1])


class ChunkStream:
    """An endless stream of document chunks with their special tokens.

    Each epoch has its own order, which depends only on the seed; without a seed, chunks keep document order.
    `weights` is the mean number of times per epoch that the documents of a source are read, 1 by default.
    `density_weight` oversamples dense documents within a source, in proportion to this power of their density.
    `sorted_until` sorts each epoch's text from low to high density, up to this position of the stream.
    """

    def __init__(
        self,
        documents: TokenisedDocuments,
        max_length: int,
        prefix: Sequence[int],
        suffix: Sequence[int],
        seed: int | None,
        weights: Mapping[str, float] | None = None,
        density_weight: float = 0.0,
        sorted_until: int | None = None,
    ) -> None:
        self.documents = documents
        self.prefix = np.array(prefix, dtype=np.int64)
        self.suffix = np.array(suffix, dtype=np.int64)
        self.seed = seed
        self._specials = len(prefix) + len(suffix)
        self._cut_documents(max_length - self._specials)
        self._weights = np.array([float((weights or {}).get(name, 1.0)) for name in documents.names])
        self._repetition: Repetition | None = None
        tokens = documents.lengths + self._chunks_per_document.astype(np.int64) * self._specials
        self._factors = _density_factors(documents, tokens, density_weight) if density_weight else None
        if seed is not None and ((self._weights != 1.0).any() or self._factors is not None):
            self._repetition = Repetition(documents.sources, self._weights.tolist(), tokens, seed, self._factors)
        self._sorted_until = sorted_until
        self._bands = None
        if sorted_until is not None:
            self._bands = np.repeat(_density_bands(documents, tokens), self._chunks_per_document)
        self._current: Epoch | None = None

    def _cut_documents(self, room: int) -> None:
        """Cut every document into as few chunks as possible; all but the last are full."""
        documents = self.documents
        self._chunks_per_document = -(-documents.lengths // room)
        offsets = offsets_within(self._chunks_per_document) * room
        self.starts = np.repeat(documents.starts, self._chunks_per_document) + offsets
        rest = np.repeat(documents.lengths, self._chunks_per_document) - offsets
        self.sizes = np.minimum(room, rest).astype(np.int32)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of every chunk, special tokens included."""
        lengths: np.ndarray = self.sizes + self._specials
        return lengths

    @cached_property
    def epoch_tokens(self) -> int:
        """Tokens of the first epoch. With integer weights, or none, all epochs have the same number."""
        if self._repetition is not None:
            return self._repetition.start(1)
        return int(self.sizes.sum(dtype=np.int64)) + len(self.sizes) * self._specials

    def epoch_start(self, epoch: int) -> int:
        """Return the position of an epoch's first token."""
        return epoch * self.epoch_tokens if self._repetition is None else self._repetition.start(epoch)

    def cut(self, start: int, end: int) -> Sequences:
        """Return the sequences that make up tokens `start` to `end` of the stream."""
        parts = []
        while start < end:
            epoch = self._epoch_at(start)
            stop = min(end, epoch.end)
            parts.append(self._take(epoch, start - epoch.start, stop - epoch.start))
            start = stop
        if len(parts) == 1:
            return parts[0]
        columns = (None if column[0] is None else np.concatenate(column) for column in zip(*parts, strict=True))
        return Sequences(*columns)  # type: ignore[arg-type]

    def usual_sequences(self, tokens: int) -> int:
        """Return a multiple of eight that the number of sequences in a batch of `tokens` almost never exceeds.

        With chunks in random order, that number is nearly normal (a renewal process): take six standard deviations.
        """
        mean, deviation = self._length_statistics
        expected = tokens / mean + 6 * deviation * math.sqrt(tokens / mean**3) + 2
        return -(-math.ceil(expected) // 8) * 8

    @cached_property
    def _length_statistics(self) -> tuple[float, float]:
        """Mean and standard deviation of the chunk lengths, weighted by how often a chunk is read."""
        lengths = self.lengths
        if self._repetition is None:
            return float(lengths.mean()), float(lengths.std())
        weights = self._weights[self.documents.sources] * (1.0 if self._factors is None else self._factors)
        read = np.repeat(weights, self._chunks_per_document)
        mean = float(np.average(lengths, weights=read))
        return mean, math.sqrt(float(np.average((lengths - mean) ** 2, weights=read)))

    def _epoch_at(self, position: int) -> Epoch:
        if self._current is None or not self._current.start <= position < self._current.end:
            repetition = self._repetition
            number = position // self.epoch_tokens if repetition is None else repetition.epoch_at(position)
            self._current = None  # free the old order before the new one is made
            order = self._by_density(self._order(number), self.epoch_start(number))
            ends = np.cumsum(self.sizes[order] + self._specials, dtype=np.int64)
            self._current = Epoch(self.epoch_start(number), order, ends)
        return self._current

    def _order(self, epoch: int) -> np.ndarray:
        """Return the chunks of an epoch in reading order."""
        order = np.arange(len(self.sizes), dtype=np.int32 if len(self.sizes) < 2**31 else np.int64)
        if self._repetition is not None:
            order = np.repeat(order, np.repeat(self._repetition.times(epoch), self._chunks_per_document))
        if self.seed is not None:
            generator(self.seed, "pieces", epoch).shuffle(order)  # the key decides the order: never rename it
        return order

    def _by_density(self, order: np.ndarray, start: int) -> np.ndarray:
        """Sort by density the chunks that are read before the run ends, so that even half an epoch reaches dense text."""
        if self._bands is None or self._sorted_until is None or start >= self._sorted_until:
            return order
        ends = np.cumsum(self.sizes[order] + self._specials, dtype=np.int64)
        count = int(np.searchsorted(ends, self._sorted_until - start)) + 1
        return np.concatenate((order[:count][np.argsort(self._bands[order[:count]], kind="stable")], order[count:]))

    def _take(self, epoch: Epoch, start: int, stop: int) -> Sequences:
        """Return tokens `start` to `stop` of one epoch: lay out complete chunks, then cut both edges."""
        first = int(np.searchsorted(epoch.ends, start, side="right"))
        last = int(np.searchsorted(epoch.ends, stop, side="left")) + 1
        chunks = epoch.order[first:last]
        sizes = self.sizes[chunks].astype(np.int64)
        lengths = sizes + self._specials
        begins = np.cumsum(lengths) - lengths
        ids = np.empty(int(lengths.sum()), dtype=np.int64)
        is_text = np.ones(len(ids), dtype=bool)
        for place, special in [
            *((begins + offset, token) for offset, token in enumerate(self.prefix)),
            *((begins + lengths - len(self.suffix) + offset, token) for offset, token in enumerate(self.suffix)),
        ]:
            ids[place] = special
            is_text[place] = False
        ids[is_text] = self.documents.gather(self.starts[chunks], sizes)
        begin = start - (int(epoch.ends[first]) - int(lengths[0]))
        lengths[-1] -= int(epoch.ends[last - 1]) - stop
        lengths[0] -= begin
        return Sequences(ids[begin : begin + stop - start], lengths)


def _density_factors(documents: TokenisedDocuments, tokens: np.ndarray, power: float) -> np.ndarray:
    """Return how often each document is read relative to its source; the mean over a source's tokens is 1."""
    assert documents.density is not None
    factors = documents.density.astype(np.float64) ** power
    sums = np.bincount(documents.sources, weights=factors * tokens, minlength=len(documents.names))
    sizes = np.bincount(documents.sources, weights=tokens, minlength=len(documents.names))
    means = np.divide(sums, sizes, out=np.zeros_like(sums), where=sizes > 0)
    # A source without any terms is read uniformly.
    return np.where(means[documents.sources] > 0, factors / np.maximum(means[documents.sources], 1e-12), 1.0)


def _density_bands(documents: TokenisedDocuments, tokens: np.ndarray) -> np.ndarray:
    """Return the density band of each document. Bands have about equally many tokens and rising density."""
    assert documents.density is not None
    order = np.argsort(documents.density, kind="stable")
    bands = np.empty(len(order), dtype=np.uint8)
    bands[order] = (np.cumsum(tokens[order]) - tokens[order]) * _BANDS // max(1, int(tokens.sum()))
    return bands


class Repetition:
    """How often each document is read in each epoch: a weight of 2.5 means 2, 3, 2, 3, … times.

    Document d has been read floor(phase_d + n · weight_d) times after n epochs, which is always within one of n · weight_d.
    The phases of a source are evenly spaced and shuffled by the seed, so every epoch draws a random sample of the right
    size from the source. There is no state, so any epoch can be computed directly. With `factors`, a document's weight is its source's
    weight times its factor.
    """

    def __init__(
        self,
        sources: np.ndarray,
        weights: Sequence[float],
        tokens: np.ndarray,
        seed: int,
        factors: np.ndarray | None = None,
    ) -> None:
        self._tokens = tokens
        self._parts = np.array([max(1, round(weight * _ONE)) for weight in weights], dtype=np.int64)
        self._sources: np.ndarray | slice = sources
        self._phase = np.zeros(len(sources), dtype=np.int32)
        self._total = int(tokens.sum())
        self._mean = 0  # tokens of a mean epoch, times _ONE
        for number, part in enumerate(self._parts.tolist()):
            here = np.flatnonzero(sources == number)
            self._mean += int(tokens[here].sum()) * part
            if part % _ONE or factors is not None:
                ranks = generator(seed, "weights", number).permutation(len(here))
                self._phase[here] = ranks * _ONE // max(1, len(here))
        if factors is not None:
            self._parts = np.maximum(1, np.rint(self._parts[sources] * factors)).astype(np.int64)
            self._sources = slice(None)  # one part per document
            self._mean = int(np.dot(self._parts.astype(np.float64), tokens))

    def times(self, epoch: int) -> np.ndarray:
        """Return how often each document is read in one epoch."""
        times: np.ndarray = self._reads(epoch + 1) - self._reads(epoch)
        return times

    def start(self, epoch: int) -> int:
        """Count the tokens of all epochs before this one."""
        return int(np.dot(self._tokens, self._reads(epoch)))

    def epoch_at(self, position: int) -> int:
        """Return the epoch that holds a position of the stream."""
        # The tokens of n epochs differ from n mean epochs by less than one pass over all documents.
        low = max(0, (position - self._total) * _ONE // self._mean)
        high = (position + self._total) * _ONE // self._mean + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.start(middle) <= position else (low, middle)
        return low

    def _reads(self, epochs: int) -> np.ndarray:
        """Return how often each document is read in the first `epochs` epochs."""
        reads: np.ndarray = (self._phase + (epochs * self._parts)[self._sources]) // _ONE
        return reads


def source_weights(corpus: Corpus, wanted: Mapping[str, float]) -> dict[str, float]:
    """Return the weight of every source of a corpus. A source in `wanted` that the corpus lacks is an error."""
    weights = corpus.source_weights
    for name in wanted:
        if name not in weights:
            fix = alternatives(name, sorted(weights), "Its sources")
            raise RecipeError(f"the corpus has no source {name!r}", where="source_weights", fix=fix)
    return weights | dict(wanted)
