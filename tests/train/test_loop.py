from __future__ import annotations

import os
import random
import resource
import signal
import time

import numpy as np
import pytest
import torch
from train_toys import Toy, ToySource, config, same, weights

from osler.core.errors import ArtifactError, OslerError, OutputError, RecipeError
from osler.train.checkpoint import Checkpoints
from osler.train.loop import train
from osler.train.source import Batch, LossOutput
from osler.train.stats import BestOf


def losses(result):
    return [(record["step"], record["loss"]) for record in result.history if record["kind"] == "train"]


class Interrupting(Exception):
    """Stands for anything that ends a run from outside."""


def stop_at(step):
    def on_step(report):
        if report.step == step:
            raise Interrupting

    return on_step


def test_learns_and_reports(tmp_path):
    module, reports = Toy(), []
    result = train(module, ToySource(150), config(), folder=tmp_path, flops_per_token=1e3, on_step=reports.append)
    curve = [loss for _, loss in losses(result)]
    assert sum(curve[-20:]) / 20 < 0.3 * sum(curve[:5]) / 5
    assert result.step == 150
    assert [report.step for report in reports] == list(range(1, 151))
    assert reports[-1].flops_per_second == pytest.approx(1e3 * reports[-1].tokens_per_second)
    assert reports[-1].lr == pytest.approx(0.01 / 150)
    assert not module.training
    source = ToySource(150)
    assert result.tokens == sum(source.load(ref).tokens for step in range(150) for ref in source.step(step))
    assert result.history[-1]["tokens"] == result.tokens


def test_accumulated_micro_batches_equal_one_large_batch(tmp_path):
    class Joined(ToySource):
        def step(self, index):
            return [index]

        def load(self, ref):
            parts = [super(Joined, self).load((ref, place)) for place in range(4)]
            tokens, labels = (torch.cat([part.payload[name] for part in parts]) for name in ("tokens", "labels"))
            payload = {"tokens": tokens, "labels": labels, "head": "only"}
            return Batch(payload, sum(part.weight for part in parts), sum(part.tokens for part in parts))

    parts, whole = Toy(dropout=0.0), Toy(dropout=0.0)
    one = train(parts, ToySource(20, micro=4), config(), folder=tmp_path / "parts")
    other = train(whole, Joined(20), config(), folder=tmp_path / "whole")
    for name, value in weights(parts).items():
        torch.testing.assert_close(value, weights(whole)[name], atol=1e-6, rtol=0)
    assert [loss for _, loss in losses(one)] == pytest.approx([loss for _, loss in losses(other)], abs=1e-6)


def test_steps_setting_overrides_the_source(tmp_path):
    result = train(Toy(), ToySource(100), config(steps=7), folder=tmp_path)
    assert result.step == 7


@pytest.mark.parametrize("stop", [3, 5, 8, 19])
def test_resumed_run_equals_uninterrupted_one(tmp_path, stop):
    settings = {"checkpoint_every": 3, "eval_every": 4, "log_every": 2, "schedule": "wsd", "warmup": 0.2}

    def evaluate(module, step):
        # Draws on the global generators, as careless code does.
        return {"score": random.random() + np.random.random() + float(torch.rand(()))}

    def run(folder, **more):
        module = Toy(heads=["a", "b"])
        source = ToySource(20, micro=3, heads=["a", "b"])
        return module, train(
            module, source, config(**settings), folder=folder, evaluate=evaluate, best=BestOf("score"), **more
        )

    straight, expected = run(tmp_path / "straight")
    with pytest.raises(Interrupting):
        run(tmp_path / "broken", on_step=stop_at(stop))
    resumed, result = run(tmp_path / "broken")
    assert same(weights(resumed), weights(straight))
    assert result == expected


def test_a_finished_run_is_not_run_again(tmp_path):
    first, again = Toy(), Toy()
    result = train(first, ToySource(5), config(checkpoint_every=2), folder=tmp_path)
    source = ToySource(5)
    assert train(again, source, config(checkpoint_every=2), folder=tmp_path) == result
    assert source.loaded == []
    assert same(weights(first), weights(again))


def test_best_weights_come_back(tmp_path):
    seen = {}

    def evaluate(module, step):
        assert not module.training
        assert not torch.is_grad_enabled()
        seen[step] = weights(module)
        return {"f1": {2: 0.5, 4: 0.9, 6: 0.9, 8: float("nan"), 9: 0.1}[step]}

    module = Toy()
    result = train(module, ToySource(9), config(eval_every=2), folder=tmp_path, evaluate=evaluate, best=BestOf("f1"))
    assert (result.best_step, result.best_value) == (4, 0.9)
    assert same(weights(module), seen[4])
    assert [(record["step"], record["f1"]) for record in result.history if record["kind"] == "eval"] == [
        (2, 0.5),
        (4, 0.9),
        (6, 0.9),
        (8, None),
        (9, 0.1),
    ]


def test_less_can_be_better_and_patience_ends_the_run(tmp_path):
    values = iter([3.0, 2.0, 2.5, 2.6, 1.0])
    result = train(
        Toy(),
        ToySource(50),
        config(eval_every=2, patience=2, checkpoint_every=100),
        folder=tmp_path,
        evaluate=lambda module, step: {"perplexity": next(values)},
        best=BestOf("perplexity", "min"),
    )
    assert (result.step, result.best_step, result.best_value) == (8, 4, 2.0)
    assert [path.name for path in Checkpoints(tmp_path).paths()] == ["step-0000000008"]


def test_an_unknown_metric_is_named(tmp_path):
    with pytest.raises(RecipeError, match=r"'f_1'.*Known: f1"):
        train(
            Toy(),
            ToySource(1),
            config(),
            folder=tmp_path,
            evaluate=lambda module, step: {"f1": 1.0},
            best=BestOf("f_1"),
        )


def test_non_finite_steps_are_skipped_and_counted(tmp_path):
    def run(name, bad, steps):
        module = Toy(dropout=0.0)
        source = ToySource(steps, bad=frozenset(bad))
        return module, train(module, source, config(schedule="constant", log_every=4), folder=tmp_path / name)

    module, result = run("bad", {2, 5, 6}, 8)
    assert result.skipped == 3
    assert all(torch.isfinite(value).all() for value in module.state_dict().values())
    assert [record["skipped"] for record in result.history] == [1, 3]
    assert all(record["loss"] is not None for record in result.history)

    class WithoutThem(ToySource):
        def step(self, index):
            return super().step([0, 1, 3, 4, 7][index])

    clean = Toy(dropout=0.0)
    train(clean, WithoutThem(5), config(schedule="constant"), folder=tmp_path / "clean")
    assert same(weights(module), weights(clean))


def test_an_infinite_loss_with_finite_gradients_is_skipped_too(tmp_path):
    class Shifted(Toy):
        def forward(self, payload):
            factor = payload.pop("factor")
            return LossOutput(super().forward(payload).loss_sum + factor)

    module = Shifted()
    before = weights(module)
    result = train(module, ToySource(1, bad=frozenset({0})), config(), folder=tmp_path)
    assert result.skipped == 1
    assert same(weights(module), before)


def test_divergence_ends_with_an_error(tmp_path):
    source = ToySource(50, bad=frozenset({1, *range(4, 50)}))
    with pytest.raises(OslerError, match=r"not finite 20 steps in a row, up to step 24.*Lower train.lr \(now"):
        train(Toy(), source, config(log_every=50), folder=tmp_path)


def test_other_settings_do_not_take_over_a_checkpoint(tmp_path):
    train(Toy(), ToySource(4), config(checkpoint_every=2), folder=tmp_path)
    with pytest.raises(ArtifactError, match="other training settings"):
        train(Toy(), ToySource(4), config(checkpoint_every=2, lr=0.5), folder=tmp_path)
    with pytest.raises(ArtifactError, match="other training settings"):
        train(Toy(), ToySource(5), config(checkpoint_every=2), folder=tmp_path)
    with pytest.raises(ArtifactError, match="do not fit this model"):
        train(Toy(width=8), ToySource(4), config(checkpoint_every=2), folder=tmp_path)
    result = train(Toy(), ToySource(4), config(checkpoint_every=3, threads=None), folder=tmp_path)
    assert result.step == 4  # where and how often to write is not a setting of the result


def test_a_full_disk_is_one_clear_error_and_spares_the_earlier_checkpoint(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def on_step(report):
        if report.step == 3:
            while not (tmp_path / "checkpoints" / "step-0000000002").exists():  # it is written in the background
                time.sleep(0.01)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))

    settings = config(checkpoint_every=2)
    try:
        with pytest.raises(OutputError, match=r"checkpoints: cannot write: the file would exceed the size limit"):
            train(Toy(width=256), ToySource(6), settings, folder=tmp_path, on_step=on_step)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-0000000002"]
    resumed, straight = Toy(width=256), Toy(width=256)
    train(resumed, ToySource(6), settings, folder=tmp_path)
    train(straight, ToySource(6), settings, folder=tmp_path / "straight")
    assert same(weights(resumed), weights(straight))


def test_a_read_only_folder_is_one_clear_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(OutputError, match="a part of the path is a file"):
        train(Toy(), ToySource(1), config(), folder=blocked / "run")


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_signals_leave_a_complete_checkpoint_and_say_so(tmp_path, capsys, number, error):
    def on_step(report):
        if report.step == 5:
            os.kill(os.getpid(), number)

    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    settings = config(checkpoint_every=100)
    with pytest.raises(error):
        train(Toy(), ToySource(12), settings, folder=tmp_path, on_step=on_step)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-0000000005"]
    assert "resumes from step 5" in capsys.readouterr().err
    resumed, straight = Toy(), Toy()
    train(resumed, ToySource(12), settings, folder=tmp_path)
    train(straight, ToySource(12), settings, folder=tmp_path / "straight")
    assert same(weights(resumed), weights(straight))
