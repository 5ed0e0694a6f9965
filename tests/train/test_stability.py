from __future__ import annotations

import pytest
import torch
from train_toys import Toy, ToySource, config, same, weights

from osler.core.errors import OslerError
from osler.train.loop import train
from osler.train.stats import StepSums


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
