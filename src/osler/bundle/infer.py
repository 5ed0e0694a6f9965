"""Run instances through the model: sorted by length, packed up to a token budget, every asked head in one pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from osler.nn.multihead import MultiHeadModel
from osler.nn.packing import Packed, pack
from osler.tasks.instances.base import Instance

_BUDGET = {"cpu": 4_096, "cuda": 65_536}


def run_heads(
    model: MultiHeadModel, instances: Sequence[Instance], heads: Sequence[str]
) -> dict[str, list[np.ndarray]]:
    """The outputs of each head for each instance, in the order given: [tokens, outputs] or [outputs] an instance."""
    device = next(model.parameters()).device
    results: dict[str, list[np.ndarray]] = {head: [np.empty(0)] * len(instances) for head in heads}
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            for group in _groups(instances, _BUDGET[device.type]):
                chosen = [instances[index] for index in group]
                batch = pack_instances(chosen, model).to(device)
                for head, output in model(batch, heads).items():
                    values = output.float().cpu().numpy()
                    borders = np.cumsum([instance.length for instance in chosen])[:-1]
                    pieces = np.split(values, borders) if model.heads[head].level == "token" else list(values)
                    for index, piece in zip(group, pieces, strict=True):
                        results[head][index] = piece
    finally:
        model.train(training)
    return results


def pack_instances(instances: Sequence[Instance], model: MultiHeadModel, **shape: int) -> Packed:
    """Pack instances as this model's encoder wants them, with segment ids only where it has embeddings for them.

    `shape` is what `pack` takes to fill a batch up: total, max_sequences, max_length.
    """
    config = model.encoder.config
    types = None
    if getattr(config, "type_vocab_size", 1) > 1:
        types = [np.zeros(i.length, dtype=np.int64) if i.types is None else i.types for i in instances]
    marks = [instance.marks for instance in instances if instance.marks is not None]
    ids = [instance.ids for instance in instances]
    return pack(ids, token_types=types, marks=marks or None, pad_id=config.pad_token_id or 0, **shape)


def _groups(instances: Sequence[Instance], budget: int) -> list[list[int]]:
    """Indices of instances of like length, each group within the budget."""
    order = sorted(range(len(instances)), key=lambda index: -instances[index].length)
    groups: list[list[int]] = []
    used = budget
    for index in order:
        length = instances[index].length
        if used + length > budget:
            groups.append([])
            used = 0
        groups[-1].append(index)
        used += length
    return groups
