from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.train.schedule import SCHEDULES, constant, linear, warmup_steps, wsd

TABLE = [
    # schedule, total, warm-up, decay, final, factors of every step
    (linear, 5, 0, 0.0, 0.0, [1.0, 0.8, 0.6, 0.4, 0.2]),
    (linear, 6, 2, 0.0, 0.0, [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]),
    (linear, 4, 0, 0.0, 0.2, [1.0, 0.8, 0.6, 0.4]),
    (constant, 5, 2, 0.5, 0.0, [0.5, 1.0, 1.0, 1.0, 1.0]),
    (constant, 3, 0, 0.5, 0.0, [1.0, 1.0, 1.0]),
    (wsd, 10, 2, 0.4, 0.0, [0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25]),
    (wsd, 4, 0, 0.5, 0.5, [1.0, 1.0, 1.0, 0.75]),
    (wsd, 3, 0, 0.0, 0.0, [1.0, 1.0, 1.0]),
    (linear, 3, 10, 0.0, 0.0, [0.1, 0.2, 0.3]),  # a recipe cut down to a few steps never leaves its warm-up
]


@pytest.mark.parametrize(("schedule", "total", "warmup", "decay", "final", "expected"), TABLE)
def test_values(schedule, total, warmup, decay, final, expected):
    assert [schedule(step, total, warmup, decay, final) for step in range(total)] == pytest.approx(expected)


@given(
    name=st.sampled_from(sorted(SCHEDULES)),
    total=st.integers(1, 400),
    warmup=st.integers(0, 500),
    decay=st.floats(0, 1),
    final=st.floats(0, 1),
)
@settings(max_examples=100, deadline=None)
def test_rises_then_never_rises_again_and_stays_between_zero_and_one(name, total, warmup, decay, final):
    factors = [SCHEDULES[name](step, total, warmup, decay, final) for step in range(total)]
    peak = min(warmup, total)
    assert all(0 < factor <= 1 for factor in factors[:peak])
    assert factors[:peak] == sorted(factors[:peak])
    assert factors[warmup:] == sorted(factors[warmup:], reverse=True)
    assert all(final - 1e-12 <= factor <= 1 for factor in factors[warmup:])


def test_a_schedule_can_be_driven_by_any_measure_of_work():
    in_steps = [linear(step, 100, 0, 0, 0) for step in range(100)]
    in_seconds = [linear(step * 36.5, 3650, 0, 0, 0) for step in range(100)]
    assert in_seconds == pytest.approx(in_steps)


def test_warmup_is_steps_or_a_fraction():
    assert warmup_steps(10_000, 50_000) == 10_000
    assert warmup_steps(0.06, 1000) == 60
    assert warmup_steps(0, 1000) == 0
