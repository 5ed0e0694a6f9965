"""Which weights a run keeps: the best on dev, the last, or the mean of the last epochs."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file

from osler.stages.finetune import run as finetuning
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.run import plan, run


@pytest.fixture
def recipe(model, make_task):
    task = make_task("drugs", ["DRUG"], seed=1, train=10)

    def make(**more):
        values = {"model": str(model), "tasks": [task], "max_length": 64, "overlap": 8, "epochs": 3, "batch_size": 4}
        train = {"lr": 1e-3, "device": "cpu", "threads": 1, "checkpoint_every": 2}
        return FinetuneRecipe.model_validate(values | more | {"train": train | more.get("train", {})})

    return make


@pytest.fixture
def falling(monkeypatch):
    """Dev scores that fall with every evaluation: the first epoch is the best."""
    scores = []

    def dev_scores(bundle, dev):
        scores.append(1.0 - len(scores) / 100)
        return {**dict.fromkeys(dev, scores[-1]), "mean": scores[-1]}

    monkeypatch.setattr(finetuning, "dev_scores", dev_scores)
    return scores


def weights(folder):
    return load_file(folder / "model.safetensors") | load_file(folder / "heads.safetensors")


def test_the_last_epoch_is_kept_where_dev_prefers_another(recipe, tmp_path, falling):
    best = run(recipe(), tmp_path / "best")
    falling.clear()
    last = run(recipe(keep="last"), tmp_path / "last")
    assert best.counts["best_step"] < best.counts["steps"]
    assert last.counts["best_step"] == last.counts["steps"] == best.counts["steps"]
    assert (best.counts["dev_mean"], last.counts["dev_mean"]) == (1.0, 0.98)
    # Dev is scored and logged all the same.
    assert len([line for line in (last.path / "history.json").read_text().splitlines() if '"eval"' in line]) == 3
    assert "The last checkpoint was kept, whatever its dev score." in (last.path / "README.md").read_text()
    assert any(
        "keep the last epoch; dev is scored but decides nothing" in line for line in plan(recipe(keep="last"), tmp_path)
    )
    before, after = weights(best.path), weights(last.path)
    assert any((before[name] != after[name]).any() for name in before)


def test_the_mean_of_the_last_epochs_is_that_of_their_weights(recipe, tmp_path):
    """The weights after an epoch are those of a run with fewer steps and the same schedule: a constant one."""
    flat = {"schedule": "constant", "warmup": 0}
    made = run(recipe(keep="last", average_epochs=2, train=flat), tmp_path / "mean")
    assert made.counts["average"]["kept"] is True
    assert made.counts["average"]["epochs"] == 2
    steps = made.counts["steps"]
    ends = [
        weights(run(recipe(keep="last", train=flat | {"steps": n}), tmp_path / str(n)).path)
        for n in (steps * 2 // 3, steps)
    ]
    for name, value in weights(made.path).items():
        np.testing.assert_allclose(value, (ends[0][name] + ends[1][name]) / 2, rtol=0, atol=1e-6)
    assert "the mean of those after the last 2 epochs" in (made.path / "README.md").read_text()


def test_a_mean_that_is_worse_is_not_kept(recipe, tmp_path, falling):
    best = run(recipe(), tmp_path / "best")
    falling.clear()
    made = run(recipe(average_epochs=2), tmp_path / "mean")
    assert made.counts["average"] == {"epochs": 2, "kept": False, "dev_mean": 0.97}
    assert made.counts["best_step"] == best.counts["best_step"]
    assert (made.path / "model.safetensors").read_bytes() == (best.path / "model.safetensors").read_bytes()
    assert "the mean of the last 2 epochs was worse" in (made.path / "README.md").read_text()


def test_defaults_do_not_change_the_identity_of_earlier_recipes(recipe):
    given = recipe()
    assert not {"head", "train_heads", "keep", "average_epochs"} & given.identity().keys()
    set_ = {"head": "linear", "train_heads": False, "keep": "last", "average_epochs": 3}
    assert set_.items() <= recipe(**set_).identity().items()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"keep": "last", "train": {"patience": 2}}, "patience stops on the dev score"),
        ({"average_epochs": 2, "train": {"patience": 2}}, "average_epochs needs to know the last epoch"),
        ({"average_epochs": 2, "train": {"budget": "1m"}}, "average_epochs needs to know the last epoch"),
        ({"train_heads": False, "freeze": "encoder"}, "leave nothing to train"),
    ],
)
def test_what_does_not_go_together_is_refused(recipe, settings, problem):
    with pytest.raises(ValueError, match=problem):
        recipe(**settings)
