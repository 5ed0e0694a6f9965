from __future__ import annotations

import pytest

from osler.nn.cost import flops_per_token
from osler.nn.presets import preset_config


@pytest.fixture(scope="module")
def base():
    return preset_config("roberta-base", vocab_size=50265, pad_token_id=1)


def test_roberta_base_at_512_costs_what_was_computed_by_hand(base):
    assert flops_per_token(base, length=512, masked_fraction=0.15) == pytest.approx(602e6, rel=0.02)
    assert flops_per_token(base, length=512, masked_fraction=0.30) == pytest.approx(637e6, rel=0.02)
    assert flops_per_token(base, length=512, masked_fraction=1.0) == pytest.approx(801e6, rel=0.02)


def test_modernbert_counts_its_windows_and_gates():
    modern = preset_config("modernbert-base", vocab_size=50368, pad_token_id=1, max_length=1024)
    assert flops_per_token(modern, length=1024, masked_fraction=0.3) == pytest.approx(824e6, rel=0.02)
    # Local layers stop growing with the length, 8 of the 22 go on.
    growth = flops_per_token(modern, length=4096) - flops_per_token(modern, length=2048)
    assert growth == pytest.approx(8 * 12 * 2048 * 768)


def test_inference_is_a_third_and_short_sequences_cost_less(base):
    both, forward = flops_per_token(base, length=512), flops_per_token(base, length=512, backward=False)
    assert both == pytest.approx(3 * forward)
    assert flops_per_token(base, length=32) < both


@pytest.mark.parametrize("kind", ["bert", "electra", "distilbert", "albert"])
def test_the_weights_are_those_of_the_model(tiny, kind):
    """Without attention a token costs 6 operations for each weight of the layers it passes (ALBERT's thrice)."""
    model = tiny.model(kind)
    matrices = {
        name: parameter.numel() * (3 if kind == "albert" and "albert_layers" in name else 1)
        for name, parameter in model.named_parameters()
        if parameter.ndim == 2 and "embeddings." not in name
    }
    assert flops_per_token(model.config, length=0) == pytest.approx(6 * sum(matrices.values()), rel=0.001)
