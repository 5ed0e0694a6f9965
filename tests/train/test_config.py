from __future__ import annotations

import pytest
import torch

from osler.core.config import validate
from osler.core.errors import RecipeError
from osler.train.config import TrainConfig
from osler.train.precision import Autocast, choose_device, cpu_computes_bf16


def test_the_papers_settings_can_be_written():
    carrino = {
        "lr": 5e-4,
        "warmup": 10_000,
        "betas": [0.9, 0.98],
        "eps": 1e-6,
        "weight_decay": 0.01,
        "decay_vectors": True,
        "clip": 0.0,
    }
    settings = validate(TrainConfig, carrino, where="recipe")
    assert settings.warmup == 10_000
    assert isinstance(settings.warmup, int)
    assert validate(TrainConfig, {"warmup": 0.06}, where="recipe").warmup == 0.06


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"warmup": 1.5}, "whole number"),
        ({"patience": 3}, "set eval_every"),
        ({"betas": [0.9, 1.0]}, "betas"),
        ({"optimiser": "adamw"}, "did you mean 'optimizer'"),
        ({"device": "tpu"}, "device"),
        ({"lr": 0}, "lr"),
    ],
)
def test_mistakes_are_named(values, message):
    with pytest.raises(RecipeError, match=message):
        validate(TrainConfig, values, where="recipe")


def test_where_and_how_often_do_not_change_the_identity():
    plain = TrainConfig()
    assert TrainConfig(device="cpu", threads=2, checkpoint_every=0).identity() == plain.identity()
    assert TrainConfig(seed=2).identity() != plain.identity()


def test_bf16_on_a_cpu_is_for_those_that_have_it_and_only_on_request(monkeypatch):
    cpu = torch.device("cpu")
    monkeypatch.setattr("osler.train.precision.cpu_computes_bf16", lambda: True)
    assert not Autocast(TrainConfig(), cpu).enabled
    with Autocast(TrainConfig(precision="bf16"), cpu).context():
        assert torch.nn.Linear(4, 4)(torch.ones(1, 4)).dtype == torch.bfloat16
    monkeypatch.setattr("osler.train.precision.cpu_computes_bf16", lambda: False)
    with pytest.raises(RecipeError, match="no instructions for it"):
        Autocast(TrainConfig(precision="bf16"), cpu)


def test_what_a_cpu_says_of_itself(monkeypatch):
    for names, computes in (({"avx512_f": True, "avx512_bf16": False}, False), ({"amx_bf16": True}, True), ({}, False)):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda found=names: found, raising=False)
        assert cpu_computes_bf16() is computes


def test_a_missing_gpu_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto").type == "cpu"
    with pytest.raises(RecipeError, match="no CUDA device"):
        choose_device("cuda")


def test_older_recipes_still_load():
    """`adam` was AdamW by another name; settings that are gone may keep their old default."""
    old = TrainConfig.model_validate({"optimizer": "adam", "keep": 2, "max_skipped": 20, "matrix_lr": 1.0})
    assert old == TrainConfig()
    assert {"max_skipped": 20, "matrix_lr": 1.0}.items() <= old.identity().items()
    assert "keep" not in old.identity()
    for name, value in (("keep", 5), ("max_skipped", 5), ("matrix_lr", 2.0)):
        with pytest.raises(RecipeError, match=f"{name} is no longer a setting"):
            validate(TrainConfig, {name: value}, where="recipe")
