"""A run that learned nothing says so, and says what to change."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.report import learning_rate, run_warnings
from osler.stages.finetune.run import run
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.train.loop import TrainResult

MODERN = SimpleNamespace(model_type="modernbert", hidden_size=128)


def recipe(**values) -> FinetuneRecipe:
    return FinetuneRecipe.model_validate({"model": "m", "tasks": ["t"], "epochs": 3, "train": {"lr": 5e-5}} | values)


def result(scores: Sequence[float], skipped: int = 0) -> TrainResult:
    history = [{"kind": "train", "step": 1, "loss": 1.0}]
    history += [{"kind": "eval", "step": step, "t": score, "mean": score} for step, score in enumerate(scores, 1)]
    best = scores.index(max(scores)) + 1
    return TrainResult(len(scores), best, max(scores), tokens=1, skipped=skipped, history=tuple(history))


def said(scores: Sequence[float], majority: float | None = None, skipped: int = 0, **values) -> list[str]:
    return run_warnings(recipe(**values), result(scores, skipped), {"t": majority}, MODERN)


@pytest.mark.parametrize(
    ("scores", "majority", "pieces"),
    [
        ([0.0, 0.004, 0.008], None, ["t is 0.008", "almost nothing", "epochs, now 3", "raise train.lr (now 5e-05, by default 0.001"]),
        ([-0.3, -0.2], None, ["t is -0.200", "almost nothing"]),
        ([0.31, 0.34], 0.34, ["t is 0.340, no better than always giving the most frequent class (0.340)"]),
        ([0.6, 0.6, 0.6], None, ["0.600 at every evaluation"]),
        ([0.6, 0.3, 0.2], None, ["fell from 0.600 at the first evaluation to 0.200", "Lower train.lr (now 5e-05)"]),
    ],
)  # fmt: skip
def test_little_nothing_and_worse_are_warnings_with_advice(scores, majority, pieces):
    (warning,) = said(scores, majority)
    for piece in pieces:
        assert piece in warning


@pytest.mark.parametrize(
    ("scores", "majority"),
    [([0.2, 0.5, 0.6], None), ([0.35, 0.4], 0.34), ([1.0, 1.0, 1.0], None), ([0.9, 0.88, 0.87], 0.5)],
)
def test_a_run_that_learned_is_left_in_peace(scores, majority):
    assert said(scores, majority) == []


def test_the_advice_on_the_rate_depends_on_the_default_of_the_encoder():
    assert "try another train.lr (now 0.001)" in said([0.01], train={"lr": 1e-3})[0]
    assert "lower train.lr (now 0.01, by default 0.001" in said([0.01], train={"lr": 1e-2})[0]


def test_skipped_steps_are_reported():
    assert said([0.2, 0.5], skipped=1) == [
        "1 of 2 steps were skipped, because loss or gradient was not finite. Lower train.lr (now 5e-05)."
    ]


def test_the_rate_is_shown_with_its_reason():
    assert learning_rate(recipe(), MODERN) == "5e-05"
    default = recipe(train={}).with_learning_rate(MODERN)
    assert learning_rate(default, MODERN) == "0.001 (the default for a modernbert encoder of hidden size 128)"
    frozen = recipe(train={}, freeze="encoder").with_learning_rate(MODERN)
    assert learning_rate(frozen, MODERN) == "0.001 (the default for heads on a frozen encoder)"


def test_the_terminal_the_card_and_a_reused_bundle_all_warn(model, tmp_path, capsys):
    sizes = {"train": 4, "dev": 2, "test": 2}
    tasks = [
        prepare(PrepareRecipe(task=name, options=sizes), tmp_path / name).path
        for name in ("clinic-entities-en", "clinic-specialty-en")
    ]
    given = recipe(
        model=str(model), tasks=tasks, max_length=64, overlap=8, epochs=1, train={"lr": 1e-6, "device": "cpu"}
    )
    made = run(given, tmp_path / "bundle")
    learned_nothing, no_better = made.counts["warnings"]
    assert "almost nothing" in learned_nothing
    assert "no better than always giving the most frequent class (0.500)" in no_better
    assert f"warning: {learned_nothing}" in capsys.readouterr().err.splitlines()
    assert f"Warning: {learned_nothing}" in (made.path / "README.md").read_text()
    assert run(given, tmp_path / "bundle").reused
    assert f"warning: {learned_nothing}" in capsys.readouterr().err.splitlines()
