"""Any Hugging Face encoder behind one call: a packed batch in, one hidden state a token out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from osler.nn.folders import load_config, load_model, without_pooler
from osler.nn.initial import seeded
from osler.nn.packing import Packed
from osler.nn.quiet import quiet
from osler.nn.runner import Mode, PackedModule


class Encoder(PackedModule):
    """A Hugging Face base model without pooler."""

    def forward(self, batch: Packed) -> Tensor:
        """The last hidden states [T, H]."""
        return self.hidden(batch)


def load_encoder(source: str | Path, *, mode: Mode | None = None) -> Encoder:
    """Load an encoder, in evaluation mode, from a folder or by its hub name; a masked language model gives its own."""
    from transformers import AutoModel

    return Encoder(load_model(AutoModel, source), mode)


def fresh_encoder(source: str | Path, *, seed: int, mode: Mode | None = None) -> Encoder:
    """An encoder of the shape of another, with random weights: the baseline for what its pretraining is worth."""
    from transformers import AutoModel

    auto: Any = AutoModel
    config = load_config(source)
    with seeded(seed, "encoder"), quiet():
        model = auto.from_config(config, dtype=torch.float32, **without_pooler(auto, config))
    return Encoder(model.eval(), mode)
