from __future__ import annotations

import json

import pytest
import torch
from train_toys import Toy, ToySource, config, same, weights

from osler.core.errors import OslerError
from osler.train.loop import train
from osler.train.stats import Meter, StepSums, Trackers, read_history


def test_rates_leave_out_pauses():
    now = [100.0]
    meter = Meter(flops_per_token=1000.0, clock=lambda: now[0])
    now[0] += 4
    with meter.paused():
        now[0] += 60  # an evaluation
    rates = meter.read(step=8, tokens=400)
    assert rates.tokens_per_second == pytest.approx(100)
    assert rates.flops_per_second == pytest.approx(100_000)
    assert rates.step_seconds == pytest.approx(0.5)
    now[0] += 2
    assert meter.read(step=9, tokens=10).tokens_per_second == pytest.approx(5)


def test_a_resumed_run_is_measured_from_where_it_starts():
    now = [0.0]
    meter = Meter(clock=lambda: now[0])
    meter.start(1000)
    now[0] += 5
    assert meter.read(step=1005, tokens=1).step_seconds == pytest.approx(1)


def write(folder, start, steps):
    trackers = Trackers(folder, start)
    for step in steps:
        trackers.record("train", step, {"loss": 1 / step}, {"tokens_per_second": 5.0})
    trackers.sync()
    trackers.close()


def test_resuming_truncates_to_the_step(tmp_path):
    write(tmp_path, 0, range(1, 9))
    path = tmp_path / "logs" / "log.jsonl"
    with open(path, "a") as handle:
        handle.write('{"kind": "train", "step": 9, "lo')  # cut short by a kill
    write(tmp_path, 5, range(6, 8))
    assert [record["step"] for record in read_history(tmp_path)] == [1, 2, 3, 4, 5, 6, 7]
    write(tmp_path, 0, [1])
    assert read_history(tmp_path) == [{"kind": "train", "step": 1, "loss": 1.0}]


def test_wall_time_is_in_the_file_but_not_in_the_history(tmp_path):
    write(tmp_path, 0, [1])
    (line,) = (tmp_path / "logs" / "log.jsonl").read_text().splitlines()
    assert json.loads(line)["clock"] == {"tokens_per_second": 5.0}
    assert "clock" not in read_history(tmp_path)[0]


def test_values_that_json_cannot_hold_become_null(tmp_path):
    trackers = Trackers(tmp_path, 0)
    trackers.record("eval", 1, {"f1": float("nan"), "loss": float("inf"), "none": None}, {})
    trackers.close()
    assert read_history(tmp_path) == [{"kind": "eval", "step": 1, "f1": None, "loss": None, "none": None}]


def test_tensorboard_reads_the_curve_without_what_was_done_again(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    write(tmp_path, 0, range(1, 9))
    write(tmp_path, 5, range(6, 8))
    events = EventAccumulator(str(tmp_path / "logs" / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [1, 2, 3, 4, 5, 6, 7]


def test_works_without_tensorboard(tmp_path, monkeypatch):
    monkeypatch.setattr("osler.train.stats.available", lambda module: False)
    write(tmp_path, 0, [1, 2])
    assert len(read_history(tmp_path)) == 2
    assert not (tmp_path / "logs" / "tensorboard").exists()


class Spiky(ToySource):
    """A step whose loss, and so its gradient, is a thousand times too large."""

    def load(self, ref):
        batch = super().load(ref)
        if ref[0] == 80:
            batch.payload["factor"] = 1000.0
        return batch


def test_a_spike_is_skipped_and_counted(tmp_path):
    result = train(Toy(), Spiky(100), config(spike=10.0, clip=0.0), folder=tmp_path / "watched")
    assert result.skipped == 1
    assert train(Toy(), Spiky(100), config(clip=0.0), folder=tmp_path / "not").skipped == 0


def test_spikes_without_end_are_called_by_their_name(tmp_path):
    settings = config(spike=0.01)  # so low that all is a spike, once the usual is known
    with pytest.raises(OslerError, match=r"or the gradient a spike, 20 steps in a row, up to step 70"):
        train(Toy(), ToySource(100), settings, folder=tmp_path)


def test_what_is_usual_survives_a_checkpoint(tmp_path):
    settings = config(spike=10.0, checkpoint_every=60)
    whole, resumed = Toy(), Toy()
    train(whole, Spiky(100), settings, folder=tmp_path / "whole")

    class Killed(Exception):
        pass

    def kill(report):
        if report.step == 70:
            raise Killed

    with pytest.raises(Killed):
        train(resumed, Spiky(100), settings, folder=tmp_path / "cut", on_step=kill)
    result = train(resumed, Spiky(100), settings, folder=tmp_path / "cut")
    assert result.skipped == 1
    assert same(weights(whole), weights(resumed))


def test_a_lasting_change_is_believed_in_the_end():
    tally = StepSums(torch.device("cpu"))
    loss, good = torch.tensor(1.0), torch.tensor(False)
    for _ in range(60):
        tally.add(loss, 1.0, torch.tensor(1.0), good)
    skipped = 0
    for _ in range(200):
        norm = torch.tensor(50.0)
        bad = tally.spike(norm, 10.0)
        skipped += int(bad)
        tally.add(loss, 1.0, norm, bad)
    assert 1 < skipped < 20
    assert not bool(tally.spike(torch.tensor(50.0), 10.0))
