"""The default learning rate follows the encoder, and old identities stay."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from osler.stages.finetune.config import HEADS_LEARNING_RATE, LEARNING_RATES, FinetuneRecipe, learning_rate_for
from osler.stages.pretrain.config import PretrainSettings
from osler.train.config import TrainConfig


def recipe(**values) -> FinetuneRecipe:
    return FinetuneRecipe.model_validate({"model": "m", "tasks": ["t"]} | values)


def encoder(hidden_size: int, model_type: str = "modernbert") -> SimpleNamespace:
    return SimpleNamespace(model_type=model_type, hidden_size=hidden_size)


@pytest.mark.parametrize("model_type", ["modernbert", "roberta"])
def test_the_default_rate_falls_with_the_hidden_size(model_type):
    def rate(size: int) -> float:
        return learning_rate_for(encoder(size, model_type))

    table = LEARNING_RATES.get(model_type, LEARNING_RATES["other"])
    assert {size: rate(size) for size in table} == table
    assert (rate(32), rate(4096)) == (rate(128), rate(1024))
    between = [rate(size) for size in range(128, 1025, 32)]
    assert between == sorted(between, reverse=True)
    assert max(between) > 10 * min(between)


def test_a_rate_that_is_left_out_is_set_and_a_given_one_is_obeyed():
    assert recipe().train.lr is None
    assert recipe().with_learning_rate(encoder(384)).train.lr == 5e-4
    assert recipe().with_learning_rate(encoder(768, "bert")).train.lr == 5e-5
    explicit = recipe(train={"lr": 5e-5})
    assert explicit.with_learning_rate(encoder(128)) is explicit
    # The rate counts, not how it was found.
    assert recipe(train={"lr": 1e-3}).identity() == recipe().with_learning_rate(encoder(128)).identity()


@pytest.mark.parametrize("values", [{"freeze": "encoder"}, {"lora": {}}, {"model": None, "add_to": "b"}])
def test_heads_and_adapters_alone_have_a_rate_of_their_own(values):
    base = encoder(768)
    assert recipe(**values).with_learning_rate(base).train.lr == HEADS_LEARNING_RATE
    assert recipe(freeze=2).with_learning_rate(base).train.lr == learning_rate_for(base)


def test_other_stages_keep_their_rate():
    assert (TrainConfig().lr, PretrainSettings().lr) == (5e-5, 5e-4)


def test_a_setting_that_is_new_is_no_part_of_the_identity_of_older_recipes():
    assert "leaks" not in recipe().identity()
    assert recipe(leaks="keep").identity()["leaks"] == "keep"
