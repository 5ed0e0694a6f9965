from __future__ import annotations

import pytest

from osler.train.stats import Meter


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
