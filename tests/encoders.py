"""Encoders with random weights for tests; osler itself starts new ones with their language-model head."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers import AutoModel

from osler.nn.encoder import PackedEncoder
from osler.nn.folders import quiet, seeded, without_pooler
from osler.nn.mlm import MaskedLM
from osler.nn.packing import Packed
from osler.nn.presets import Preset, preset_config


def preset_encoder(name: str | Preset, *, vocab_size: int, pad_token_id: int, seed: int, **shape: Any) -> PackedEncoder:
    """An encoder of a preset size, in evaluation mode like a loaded one."""
    auto: Any = AutoModel
    config = preset_config(name, vocab_size=vocab_size, pad_token_id=pad_token_id, **shape)
    with seeded(seed, "encoder"), quiet():
        model = auto.from_config(config, **without_pooler(auto, config))
    return PackedEncoder(model.eval())


def preset_lm(shape: str | Preset, *, seed: int, **options: Any) -> MaskedLM:
    """A masked language model of a preset size; `options` are those of `preset_config`."""
    return MaskedLM.from_config(preset_config(shape, **options), seed=seed)


def scores(model: MaskedLM, hidden: Tensor) -> Tensor:
    """Scores over the vocabulary [M, V], without padding."""
    return model.padded_head(hidden)[:, : model.vocab_size]


def scores_at(model: MaskedLM, batch: Packed, positions: Tensor) -> Tensor:
    """Scores over the vocabulary at some positions of a batch."""
    return scores(model, model.hidden(batch).index_select(0, positions))
