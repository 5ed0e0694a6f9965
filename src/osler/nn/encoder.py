"""Any Hugging Face encoder behind one call: a packed batch in, one hidden state a token out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from osler.nn.folders import load_config, load_model, save_model, without_pooler
from osler.nn.initial import seeded
from osler.nn.packing import Packed
from osler.nn.presets import preset_config
from osler.nn.quiet import quiet
from osler.nn.runner import Mode, Runner


class Encoder(nn.Module):
    """A Hugging Face base model without pooler."""

    def __init__(self, model: Any, mode: Mode | None = None) -> None:
        super().__init__()
        self.model = model
        self._runner = Runner.prepare(model, mode)
        self.train(model.training)

    @property
    def config(self) -> Any:
        """The Hugging Face configuration."""
        return self.model.config

    @property
    def hidden_size(self) -> int:
        """The width of a hidden state."""
        return int(self.config.hidden_size)

    @property
    def vocab_size(self) -> int:
        """The number of rows of the embedding table."""
        return int(self.config.vocab_size)

    @property
    def max_length(self) -> int:
        """The most tokens a sequence may have, special tokens included."""
        return self._runner.layout.max_length

    @property
    def mode(self) -> Mode:
        """Whether batches run packed, or padded because the architecture (or the recipe) wants it."""
        return self._runner.mode

    def forward(self, batch: Packed) -> Tensor:
        """The last hidden states [T, H]."""
        return self._runner.hidden(self.model, batch)

    def save(self, folder: Path) -> None:
        """Write a folder that stock `AutoModel` loads."""
        save_model(self.model, folder)


def load_encoder(source: str | Path, *, mode: Mode | None = None) -> Encoder:
    """Load an encoder, in evaluation mode, from a folder or by its hub name; a masked language model gives its own."""
    from transformers import AutoModel

    return Encoder(load_model(AutoModel, source), mode)


def preset_encoder(
    name: str,
    *,
    vocab_size: int,
    pad_token_id: int,
    max_length: int = 512,
    bos_token_id: int | None = None,
    eos_token_id: int | None = None,
    dropout: float | None = None,
    seed: int,
    mode: Mode | None = None,
) -> Encoder:
    """Make an encoder of a preset size with random weights, in evaluation mode like a loaded one."""
    from transformers import AutoModel

    auto: Any = AutoModel
    config = preset_config(
        name,
        vocab_size=vocab_size,
        pad_token_id=pad_token_id,
        max_length=max_length,
        bos_token_id=bos_token_id,
        eos_token_id=eos_token_id,
        dropout=dropout,
    )
    with seeded(seed, "encoder"), quiet():
        model = auto.from_config(config, **without_pooler(auto, config))
    return Encoder(model.eval(), mode)


def fresh_encoder(source: str | Path, *, seed: int, mode: Mode | None = None) -> Encoder:
    """An encoder of the shape of another, with random weights: the baseline for what its pretraining is worth."""
    from transformers import AutoModel

    auto: Any = AutoModel
    config = load_config(source)
    with seeded(seed, "encoder"), quiet():
        model = auto.from_config(config, dtype=torch.float32, **without_pooler(auto, config))
    return Encoder(model.eval(), mode)
