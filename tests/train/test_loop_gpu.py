from __future__ import annotations

import pytest
import torch
from train_toys import Toy, ToySource, config, same, weights

from osler.train.loop import train

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def curve(result):
    return [record["loss"] for record in result.history]


def test_the_gpu_computes_what_the_cpu_computes(tmp_path):
    plain = {"precision": "fp32", "compile": "off"}
    here = train(Toy(dropout=0.0), ToySource(20, micro=2), config(**plain), folder=tmp_path / "cpu")
    there = train(Toy(dropout=0.0), ToySource(20, micro=2), config(**plain, device="cuda"), folder=tmp_path / "gpu")
    assert curve(there) == pytest.approx(curve(here), abs=1e-4)


def test_bf16_and_compile_learn(tmp_path):
    settings = config(device="cuda", compile="on", precision="bf16")
    losses = curve(train(Toy(dropout=0.0), ToySource(150), settings, folder=tmp_path))
    assert sum(losses[-20:]) / 20 < 0.4 * sum(losses[:5]) / 5


def test_bad_steps_are_skipped_on_the_device(tmp_path):
    settings = config(device="cuda", compile="off", schedule="constant", log_every=100)
    module = Toy()
    before = weights(module)
    result = train(module, ToySource(5, bad=frozenset(range(5))), settings, folder=tmp_path)
    assert result.skipped == 5
    assert same({name: value.cpu() for name, value in weights(module).items()}, before)


def test_steps_between_log_lines_never_wait_for_the_device(tmp_path):
    def on_step(report):
        torch.cuda.set_sync_debug_mode("error" if 2 <= report.step < 19 else "default")

    settings = config(device="cuda", compile="off", log_every=100)
    try:
        assert train(Toy(), ToySource(20, micro=2), settings, folder=tmp_path, on_step=on_step).step == 20
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_resumes_with_dropout(tmp_path):
    settings = config(device="cuda", compile="off", checkpoint_every=4, precision="fp32")

    class Stopped(Exception):
        pass

    def stop(report):
        if report.step == 6:
            raise Stopped

    straight, resumed = Toy(), Toy()
    train(straight, ToySource(10), settings, folder=tmp_path / "straight")
    with pytest.raises(Stopped):
        train(Toy(), ToySource(10), settings, folder=tmp_path / "broken", on_step=stop)
    train(resumed, ToySource(10), settings, folder=tmp_path / "broken")
    for name, value in weights(straight).items():
        torch.testing.assert_close(weights(resumed)[name], value, atol=1e-6, rtol=0)
