from __future__ import annotations

import pytest
import torch

from osler.core.errors import RecipeError
from osler.nn.encoder import preset_encoder
from osler.nn.packing import pack
from osler.nn.presets import PRESETS, preset_config


def test_base_is_roberta_base():
    from transformers import RobertaConfig

    # The published configuration of roberta-base.
    published = RobertaConfig(
        vocab_size=50265,
        max_position_embeddings=514,
        layer_norm_eps=1e-5,
        type_vocab_size=1,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
    )
    ours = preset_config("base", vocab_size=50265, pad_token_id=1, bos_token_id=0, eos_token_id=2)
    assert ours.to_dict() == published.to_dict()


def test_large_is_roberta_large():
    large = preset_config("large", vocab_size=50265, pad_token_id=1)
    shape = (large.num_hidden_layers, large.hidden_size, large.num_attention_heads, large.intermediate_size)
    assert shape == (24, 1024, 16, 4096)


@pytest.mark.parametrize("name", ["tiny", "small"])
@torch.no_grad()
def test_a_preset_takes_exactly_its_length(name):
    encoder = preset_encoder(name, vocab_size=77, pad_token_id=3, max_length=40, seed=0)
    assert (encoder.max_length, encoder.vocab_size, encoder.mode) == (40, 77, "packed")
    assert encoder.hidden_size == PRESETS[name].width
    assert encoder(pack([list(range(4, 44))], pad_id=3)).shape == (40, encoder.hidden_size)


@torch.no_grad()
def test_the_modern_shape_runs_packed(monkeypatch):
    from dataclasses import replace

    monkeypatch.setitem(PRESETS, "modern", replace(PRESETS["modern"], layers=3, width=32, heads=2, inner=48))
    encoder = preset_encoder(
        "modern", vocab_size=77, pad_token_id=0, max_length=200, bos_token_id=1, eos_token_id=2, dropout=0.2, seed=0
    )
    assert (encoder.config.model_type, encoder.max_length, encoder.mode) == ("modernbert", 200, "packed")
    assert encoder.config.mlp_dropout == 0.2
    assert encoder(pack([[5] * 200, [6] * 3], pad_id=0)).shape == (203, 32)


def test_weights_depend_on_the_seed_alone_and_leave_the_generator_be():
    def weights(seed):
        return preset_encoder("tiny", vocab_size=50, pad_token_id=1, seed=seed).state_dict()

    torch.manual_seed(5)
    untouched = torch.rand(3)
    torch.manual_seed(5)
    first = weights(0)
    assert torch.equal(torch.rand(3), untouched)
    second, other = weights(0), weights(1)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_an_unknown_preset_names_the_nearest():
    with pytest.raises(RecipeError, match="Did you mean 'compact'"):
        preset_config("compct", vocab_size=10, pad_token_id=0)
