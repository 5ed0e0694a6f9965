"""The default learning rate follows the encoder, and old identities stay."""

from __future__ import annotations

import pytest

from osler.stages.finetune.config import HEADS_LEARNING_RATE, LEARNING_RATES, FinetuneRecipe, learning_rate_for
from osler.stages.pretrain.config import PretrainSettings
from osler.train.config import TrainConfig


def recipe(**values) -> FinetuneRecipe:
    return FinetuneRecipe.model_validate({"model": "m", "tasks": ["t"]} | values)


def test_the_default_rate_falls_with_the_hidden_size():
    assert {size: learning_rate_for(size) for size in LEARNING_RATES} == LEARNING_RATES
    assert learning_rate_for(32) == learning_rate_for(128)
    assert learning_rate_for(4096) == learning_rate_for(1024)
    between = [learning_rate_for(size) for size in (128, 192, 256, 320, 384, 448, 512, 640, 768, 896, 1024)]
    assert between == sorted(between, reverse=True)
    assert len(set(between)) == len(between)


def test_a_rate_that_is_left_out_is_set_and_a_given_one_is_obeyed():
    assert recipe().train.lr is None
    assert recipe().with_learning_rate(384).train.lr == learning_rate_for(384)
    explicit = recipe(train={"lr": 5e-5})
    assert explicit.with_learning_rate(128) is explicit
    # The rate counts, not how it was found.
    assert recipe(train={"lr": 1e-3}).identity() == recipe().with_learning_rate(128).identity()


@pytest.mark.parametrize("values", [{"freeze": "encoder"}, {"lora": {}}, {"model": None, "add_to": "b"}])
def test_heads_and_adapters_alone_have_a_rate_of_their_own(values):
    assert recipe(**values).with_learning_rate(768).train.lr == HEADS_LEARNING_RATE
    assert recipe(freeze=2).with_learning_rate(768).train.lr == learning_rate_for(768)


def test_other_stages_keep_their_rate():
    assert (TrainConfig().lr, PretrainSettings().lr) == (5e-5, 5e-4)


def test_a_setting_that_is_new_is_no_part_of_the_identity_of_older_recipes():
    assert "leaks" not in recipe().identity()
    assert recipe(leaks="keep").identity()["leaks"] == "keep"
