"""Encoders with random weights for tests; osler itself starts new ones with their language-model head."""

from __future__ import annotations

from typing import Any

from transformers import AutoModel

from osler.nn.encoder import PackedEncoder
from osler.nn.folders import quiet, seeded, without_pooler
from osler.nn.presets import preset_config


def preset_encoder(name: str, *, vocab_size: int, pad_token_id: int, seed: int, **shape: Any) -> PackedEncoder:
    """An encoder of a preset size, in evaluation mode like a loaded one."""
    auto: Any = AutoModel
    config = preset_config(name, vocab_size=vocab_size, pad_token_id=pad_token_id, **shape)
    with seeded(seed, "encoder"), quiet():
        model = auto.from_config(config, **without_pooler(auto, config))
    return PackedEncoder(model.eval())
