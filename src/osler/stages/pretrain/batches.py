"""Training and validation batches of the masked language model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from osler.core.seeding import generator
from osler.nn.packing import Packed, pack
from osler.stages.pretrain.masking import IGNORED, Masker
from osler.stages.pretrain.stream import PieceStream
from osler.train.source import Batch


@dataclass(frozen=True)
class MaskedBatch:
    """What the model is called with."""

    batch: Packed
    positions: torch.Tensor
    targets: torch.Tensor

    def to(self, device: torch.device) -> MaskedBatch:
        """A copy on another device."""
        return MaskedBatch(
            self.batch.to(device, non_blocking=True),
            self.positions.to(device, non_blocking=True),
            self.targets.to(device, non_blocking=True),
        )

    def pin_memory(self) -> MaskedBatch:
        """A copy in page-locked memory: from elsewhere the host would wait for the device before every copy."""
        return MaskedBatch(self.batch.pin_memory(), self.positions.pin_memory(), self.targets.pin_memory())


class PretrainSource:
    """Micro-batch m of step s is batch s·accumulate + m of the stream, masked by a stream of its own."""

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
        pad_id: int,
    ) -> None:
        self.stream = stream
        self.masker = masker
        self.seed = seed
        self.batch_tokens = batch_tokens
        self.accumulate = accumulate
        self.steps = steps
        self.max_length = max_length
        self.pad_id = pad_id
        self.slots = stream.usual_sequences(batch_tokens)

    def __len__(self) -> int:
        return self.steps

    def step(self, index: int) -> Sequence[int]:
        """The numbers of the step's batches in the stream."""
        return range(index * self.accumulate, (index + 1) * self.accumulate)

    def load(self, ref: int) -> Batch:
        """Cut one batch out of the stream and mask it."""
        sequences = self.stream.sequences(ref * self.batch_tokens, (ref + 1) * self.batch_tokens)
        rng = generator(self.seed, "mask", ref)
        return masked_batch(sequences, self.masker, rng, self.max_length, self.pad_id, self.slots)


def masked_batch(
    sequences: Sequence[np.ndarray],
    masker: Masker,
    rng: np.random.Generator,
    max_length: int,
    pad_id: int,
    slots: int,
) -> Batch:
    """Mask sequences and pack them. Room is kept for `slots` sequences, or a multiple of it, so that shapes seldom change."""
    flat = np.concatenate(sequences)
    masked = masker.apply(flat, rng)
    borders = np.cumsum([len(sequence) for sequence in sequences])[:-1]
    room = -(-len(sequences) // slots) * slots
    packed = pack(np.split(masked.ids, borders), pad_id=pad_id, max_length=max_length, max_sequences=room)
    payload = MaskedBatch(packed, torch.from_numpy(masked.positions), torch.from_numpy(masked.targets))
    return Batch(payload, weight=float((masked.targets != IGNORED).sum()), tokens=len(flat))


def validation_batches(
    stream: PieceStream, masker: Masker, *, batch_tokens: int, limit: int, max_length: int, pad_id: int
) -> Iterator[Batch]:
    """The same batches with the same masks every time: one pass in order, up to `limit` tokens."""
    total = min(limit, stream.epoch_tokens)
    for number, start in enumerate(range(0, total, batch_tokens)):
        sequences = stream.sequences(start, min(start + batch_tokens, total))
        rng = generator(0, "validation", number)
        yield masked_batch(sequences, masker, rng, max_length, pad_id, stream.usual_sequences(batch_tokens))
