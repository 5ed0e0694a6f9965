"""The mean of the weights after several steps: what it is, when it is kept, and that a resumed run gives the same."""

from __future__ import annotations

import pytest
import torch
from train_toys import Toy, ToySource, config, same, weights

from osler.train.loop import train
from osler.train.stats import BestOf

STEPS, AVERAGE = 9, [5, 7, 9]


def run(folder, scores, module=None, best=BestOf("f1"), stop=None, **more):  # noqa: B008 - immutable
    """Train with these scores by step; the evaluation of the mean is the second one at the last step."""
    seen: list[tuple[int, dict[str, torch.Tensor]]] = []
    after: dict[int, dict[str, torch.Tensor]] = {}
    module = module or Toy()

    def evaluate(module, step):
        seen.append((step, weights(module)))
        values = scores[step]
        return {"f1": values[0] if sum(at == step for at, _ in seen) == 1 else values[1]}

    def on_step(report):
        after[report.step] = weights(module)
        if report.step == stop:
            raise KeyboardInterrupt

    settings = config(eval_every=3, checkpoint_every=2)
    result = train(
        module, ToySource(STEPS), settings, folder=folder, evaluate=evaluate, best=best, on_step=on_step, **more
    )
    return module, result, after, seen


def mean(after, steps):
    return {name: sum(after[step][name] for step in steps) / len(steps) for name in after[steps[0]]}


@pytest.mark.parametrize(("last", "kept"), [((0.1, 0.8), True), ((0.1, 0.9), True), ((0.8, 0.7), False)])
def test_the_mean_is_kept_if_it_is_at_least_as_good_as_the_best(tmp_path, last, kept):
    module, result, after, seen = run(tmp_path, {3: (0.7,), 6: (0.8,), 9: last}, average=AVERAGE)
    assert [step for step, _ in seen] == [3, 6, 9, 9]
    expected = mean(after, AVERAGE)
    for name, value in seen[-1][1].items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-6)
    assert (result.averaged, result.average_value) == (kept, last[1])
    assert same(weights(module), seen[-1][1] if kept else seen[1][1])
    assert (result.best_step, result.best_value) == ((9, last[1]) if kept else (6, 0.8))
    assert [record["kind"] for record in result.history if "f1" in record] == ["eval", "eval", "eval", "average"]


def test_without_a_choice_the_mean_is_kept_in_any_case(tmp_path):
    module, result, after, _ = run(
        tmp_path / "last", {3: (0.7,), 6: (0.8,), 9: (0.6, 0.1)}, best=BestOf("f1", "last"), average=AVERAGE
    )
    assert (result.averaged, result.best_value) == (True, 0.1)
    blind = Toy()
    train(blind, ToySource(STEPS), config(), folder=tmp_path / "blind", average=AVERAGE)
    assert same(weights(blind), weights(module))
    assert not same(weights(blind), after[9])


def test_the_last_weights_are_kept_if_asked_for(tmp_path):
    module, result, after, _ = run(tmp_path, {3: (0.9,), 6: (float("nan"),), 9: (0.1,)}, best=BestOf("f1", "last"))
    assert (result.best_step, result.best_value, result.averaged) == (9, 0.1, False)
    assert same(weights(module), after[9])


@pytest.mark.parametrize("stop", [4, 6, 8, 9])
def test_a_resumed_run_has_the_same_mean(tmp_path, stop):
    scores = {3: (0.7,), 6: (0.8,), 9: (0.5, 0.9)}
    straight, expected, *_ = run(tmp_path / "straight", scores, average=AVERAGE)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "broken", scores, stop=stop, average=AVERAGE)
    resumed, result, *_ = run(tmp_path / "broken", scores, average=AVERAGE)
    assert same(weights(resumed), weights(straight))
    assert result == expected
