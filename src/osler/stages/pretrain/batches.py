"""Training and validation batches of the masked language model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from osler.core.seeding import generator
from osler.nn.packing import Packed
from osler.stages.pretrain.documents import ramps
from osler.stages.pretrain.stream import PieceStream, Stretch
from osler.stages.pretrain.updates import Updates
from osler.tasks.mlm.masking import IGNORED, Masker
from osler.train.source import Batch


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
        self.updates = Updates(accumulate, ramp)
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
