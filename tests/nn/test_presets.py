from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from encoders import preset_encoder

from osler.core.errors import RecipeError
from osler.nn.cost import flops_per_token
from osler.nn.packing import pack
from osler.nn.presets import PRESETS, find_preset, preset_config


def test_roberta_base_is_the_published_one():
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
    ours = preset_config("roberta-base", vocab_size=50265, pad_token_id=1, bos_token_id=0, eos_token_id=2)
    assert ours.to_dict() == published.to_dict()


def test_roberta_large_is_the_published_one():
    large = preset_config("roberta-large", vocab_size=50265, pad_token_id=1)
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

    monkeypatch.setitem(
        PRESETS, "modernbert-base", replace(PRESETS["modernbert-base"], layers=3, width=32, heads=2, inner=48)
    )
    encoder = preset_encoder(
        "modernbert-base",
        vocab_size=77,
        pad_token_id=0,
        max_length=200,
        bos_token_id=1,
        eos_token_id=2,
        dropout=0.2,
        seed=0,
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


def test_modernbert_base_is_the_published_one():
    from transformers import ModernBertConfig

    ours = preset_config(
        "modernbert-base", vocab_size=50368, pad_token_id=50283, bos_token_id=50281, eos_token_id=50282, max_length=8192
    )
    # The published configuration of ModernBERT-base is the default one of transformers.
    published = ModernBertConfig().to_dict()
    shape = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "local_attention")
    assert {key: ours.to_dict()[key] for key in shape} == {key: published[key] for key in shape}
    assert (ours.num_hidden_layers, ours.hidden_size) == (22, 768)


def test_modernbert_12_does_about_the_work_of_roberta_base():
    def work(name):
        return flops_per_token(preset_config(name, vocab_size=50304, pad_token_id=1), length=512, masked_fraction=0.15)

    shape = PRESETS["modernbert-12"]
    assert (shape.layers, shape.width, shape.heads, shape.inner) == (12, 768, 12, 2048)
    assert work("modernbert-12") == pytest.approx(work("roberta-base"), rel=0.06)


def test_a_shape_changes_single_numbers_of_a_preset():
    shape = PRESETS["compact"].changed(layers=3, width=128, heads=4)
    config = preset_config(shape, vocab_size=10, pad_token_id=0)
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (3, 128, 4)
    assert config.intermediate_size == PRESETS["compact"].inner


def test_heads_must_share_the_width():
    with pytest.raises(RecipeError, match="7 heads do not divide a width of 384"):
        PRESETS["compact"].changed(heads=7)
    with pytest.raises(RecipeError, match="odd width"):
        PRESETS["tiny"].changed(width=10, heads=2)


@pytest.mark.parametrize(
    ("former", "now"), [("base", "roberta-base"), ("large", "roberta-large"), ("modern", "modernbert-base")]
)
def test_a_former_name_names_its_successor(former, now):
    with pytest.raises(RecipeError, match=f"Did you mean '{now}'"):
        find_preset(former)


def test_presets_are_known_without_torch():
    code = "import sys, osler.nn.presets; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_preset_names_the_nearest():
    with pytest.raises(RecipeError, match="Did you mean 'compact'"):
        preset_config("compct", vocab_size=10, pad_token_id=0)
