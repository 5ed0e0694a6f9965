"""Run the heads of a bundle on encoder inputs. A runner hides what computes them, so that annotation needs no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from osler.tasks.instances.base import Instance

if TYPE_CHECKING:
    from osler.nn.multihead import MultiHeadModel
    from osler.nn.packing import Packed

_BATCH_TOKENS = {"cpu": 4_096, "cuda": 65_536}
Advance = Callable[[int], None]


class Runner(Protocol):
    """Computes the outputs of heads."""

    def outputs(
        self, instances: Sequence[Instance], heads: Sequence[str], advance: Advance | None = None
    ) -> dict[str, list[np.ndarray]]:
        """Outputs of each head for each instance: [tokens, outputs] or [outputs].

        `advance` is called with the number of instances of each batch when it is done.
        """

    def transitions(self, head: str) -> np.ndarray | None:
        """Scores [tag, next tag] of a CRF head; None for any other head."""


@dataclass(frozen=True, eq=False)
class TorchRunner:
    """Runs heads with torch."""

    model: MultiHeadModel

    def outputs(
        self, instances: Sequence[Instance], heads: Sequence[str], advance: Advance | None = None
    ) -> dict[str, list[np.ndarray]]:
        return run_heads(self.model, instances, heads, advance)

    @property
    def pass_characters(self) -> int:
        """Characters of text that fill some batches."""
        return 4 * _BATCH_TOKENS[next(self.model.parameters()).device.type]

    def transitions(self, head: str) -> np.ndarray | None:
        scores = self.model.head(head).steps()
        return None if scores is None else np.asarray(scores.cpu().numpy())


def length_batches(instances: Sequence[Instance], budget: int) -> list[list[int]]:
    """Numbers of the instances in batches of similar length, longest first, with at most `budget` tokens in a batch."""
    batches: list[list[int]] = []
    used = budget
    for index in sorted(range(len(instances)), key=lambda index: -instances[index].length):
        if used + instances[index].length > budget:
            batches.append([])
            used = 0
        batches[-1].append(index)
        used += instances[index].length
    return batches


def run_heads(
    model: MultiHeadModel,
    instances: Sequence[Instance],
    heads: Sequence[str],
    advance: Advance | None = None,
) -> dict[str, list[np.ndarray]]:
    """Return the outputs of each head for each instance: [tokens, outputs] or [outputs]."""
    import torch

    device = next(model.parameters()).device
    results: dict[str, list[np.ndarray]] = {head: [np.empty(0)] * len(instances) for head in heads}
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            for indices in length_batches(instances, _BATCH_TOKENS[device.type]):
                batch = [instances[index] for index in indices]
                borders = np.cumsum([instance.length for instance in batch])[:-1]
                for head, output in model(pack_instances(batch, model).to(device), heads).items():
                    values = output.float().cpu().numpy()
                    rows = np.split(values, borders) if model.heads[head].level == "token" else list(values)
                    for index, row in zip(indices, rows, strict=True):
                        results[head][index] = row
                if advance:
                    advance(len(indices))
    finally:
        model.train(training)
    return results


def pack_instances(instances: Sequence[Instance], model: MultiHeadModel, **shape: int) -> Packed:
    """Pack instances for this model's encoder. `shape` pads the batch: total, max_sequences, max_length."""
    from osler.nn.packing import pack

    config = model.encoder.config
    types = None
    if getattr(config, "type_vocab_size", 1) > 1:
        types = [np.zeros(i.length, dtype=np.int64) if i.types is None else i.types for i in instances]
    marks = [instance.marks for instance in instances if instance.marks is not None]
    ids = [instance.ids for instance in instances]
    return pack(ids, token_types=types, marks=marks or None, pad_id=config.pad_token_id or 0, **shape)
