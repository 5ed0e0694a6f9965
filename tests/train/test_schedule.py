from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from train_toys import Toy, ToySource, config, same, weights

from osler.core.errors import RecipeError
from osler.train import loop
from osler.train.config import Budget
from osler.train.loop import train
from osler.train.parallel import World
from osler.train.schedule import SCHEDULES, ClockPace, StepPace, constant, linear, root, warmup_steps, wsd

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
    (root, 4, 1, 0.0, 0.0, [1.0, 0.75**0.5, 0.5**0.5, 0.5]),
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


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("25m", Budget(seconds=1500)),
        ("1h30m", Budget(seconds=5400)),
        ("90s", Budget(seconds=90)),
        ("0.5h", Budget(seconds=1800)),
        ("1e18flop", Budget(flops=1e18)),
        ("2.5e17 FLOPs", Budget(flops=2.5e17)),
    ],
)
def test_budgets_are_read(text, budget):
    assert Budget.parse(text) == budget


@pytest.mark.parametrize("text", ["", "25", "m", "0m", "-3m", "25 minutes", "1e18"])
def test_what_is_no_budget_is_refused(text):
    with pytest.raises(ValueError, match="budget"):
        Budget.parse(text)
    with pytest.raises(ValidationError, match="budget"):
        config(budget=text)


def test_steps_and_budget_exclude_each_other():
    with pytest.raises(ValidationError, match="give one of them"):
        config(steps=5, budget="1m")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def pace(clock: Clock, **settings: object) -> ClockPace:
    result = ClockPace(config(**{"schedule": "wsd", "decay": 0.2, "warmup": 0.1, **settings}), 100.0, World(), clock)
    result.begin(0)
    return result


def test_the_clock_drives_the_schedule_to_its_end():
    clock = Clock()
    run = pace(clock)
    clock.now += 30  # compiling
    run.observe(1, 30.0)
    assert (
        run.fraction(1) == run.fraction(1000) == 0.0
    )  # it says nothing of the speed and takes nothing from the warm-up
    clock.now += 3.5
    run.observe(8, 0.5)
    assert run.factor(8) == pytest.approx(0.5)  # half of the first tenth of the 70 seconds that are left
    assert run.fraction(29) == pytest.approx(0.2)  # 21 steps later, at half a second each
    clock.now += 59.5
    run.observe(100, 0.5)
    assert run.factor(100) == pytest.approx(0.5)  # half of the last fifth is over
    assert run.seconds_left(100, 0.5) == pytest.approx(7)
    assert not run.over(113)
    assert run.over(114)
    assert run.factor(114) == 0.0


def test_a_clock_looks_often_at_first_and_before_it_ends_anything():
    clock = Clock()
    run = pace(clock)
    assert [step for step in range(1, 40) if run.looks_at(step)] == [1, 2, 4, 8, 16, 32]
    clock.now += 60
    run.observe(2, 50.0)  # far too slow, by some mishap
    assert run.looks_at(3)
    clock.now += 1
    run.observe(3, 1.0)
    assert not run.over(3)


def test_a_warm_up_may_be_a_part_of_the_time_or_a_number_of_steps():
    clock = Clock()
    by_time, by_steps = pace(clock), pace(clock, warmup=10)
    clock.now += 5
    for each in (by_time, by_steps):
        each.observe(4, 0.0)
    assert by_time.factor(4) == pytest.approx(0.5)
    assert by_steps.factor(4) == pytest.approx(0.5)
    assert by_steps.factor(10) == 1.0


@pytest.mark.parametrize("schedule", ["linear", "constant", "wsd"])
@pytest.mark.parametrize("warmup", [0.0, 0.001, 0.1, 0.9, 3])
def test_no_update_under_a_clock_is_wasted_and_the_rate_rises_to_its_peak(schedule, warmup):
    clock = Clock()
    run = pace(clock, schedule=schedule, warmup=warmup)
    factors = []
    for step in range(1, 91):
        factors.append(run.factor(step - 1))
        clock.now += 10 if step == 1 else 1  # the first one compiles
        if run.looks_at(step):
            run.observe(step, 1.0)
    assert all(0 < factor <= 1 for factor in factors)
    peak = factors.index(1.0) if 1.0 in factors else factors.index(max(factors))
    assert factors[: peak + 1] == sorted(factors[: peak + 1])
    if warmup == 0.1:
        assert factors[:3] == pytest.approx([0.01, 0.01, 1 / 9])  # one of the 9 seconds that the warm-up has
    if warmup == 0.0:
        assert factors[0] == 1.0


def test_a_run_of_work_begins_as_one_of_steps_does(tmp_path):
    settings = {"warmup": 0.5, "log_every": 1}
    by_work = train(
        Toy(), Counted(3), config(budget="8e5flop", **settings), folder=tmp_path / "work", flops_per_token=1e3
    )
    by_steps = train(Toy(), ToySource(8), config(steps=8, **settings), folder=tmp_path / "steps")
    assert by_work.history == by_steps.history
    assert by_work.history[0]["lr"] > 0


def test_the_first_updates_of_a_timed_run_move_the_weights(tmp_path):
    module, rates = Toy(), []
    before = weights(module)
    moved = []

    def look(report):
        moved.append(not same(before, weights(module)))

    result = train(
        module, ToySource(10**9), config(budget="0.3s", warmup=0.2, log_every=1), folder=tmp_path, on_step=look
    )
    rates = [record["lr"] for record in result.history if record["kind"] == "train"]
    assert moved[0]
    assert rates[0] == rates[1] == pytest.approx(0.01 * config().lr)
    assert min(rates) > 0


def test_a_resumed_run_keeps_its_place_and_ends_with_its_time():
    clock = Clock()
    first = pace(clock)
    clock.now += 10
    first.observe(1, 10.0)
    clock.now += 36
    first.observe(50, 0.8)
    state = first.state(50)
    clock.now += 10_000  # a weekend
    second = pace(clock)
    second.load_state(state)
    second.begin(50)
    assert second.fraction(50) == pytest.approx(0.4)
    clock.now += 20  # compiling again
    second.observe(51, 20.0)
    assert second.fraction(51) == pytest.approx(36 / 70)  # what is done is a larger part of what can be
    clock.now += 17
    second.observe(75, 0.7)
    assert second.fraction(75) == pytest.approx(53 / 70)
    clock.now += 17
    second.observe(100, 0.7)
    assert second.over(100)


@given(st.integers(1, 50), st.floats(0.0, 0.9))
def test_steps_end_where_they_should(total, warmup):
    run = StepPace(config(warmup=warmup), total)
    assert [run.over(step) for step in range(1, total + 1)] == [False] * (total - 1) + [True]
    assert run.fraction(total) == 1.0


class Timed(Toy):
    """Takes 1/64 of a second of the clock for every pass, and half a second more for the first, as if it compiled."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock, self.wait = clock, 0.5

    def forward(self, payload):
        self.clock.now += self.wait + 1 / 64
        self.wait = 0.0
        return super().forward(payload)


@pytest.fixture
def clock(monkeypatch) -> Clock:
    """The clock of every training run."""
    clock = Clock()
    for name in ("ClockPace", "Meter"):
        monkeypatch.setattr(loop, name, partial(getattr(loop, name), clock=clock))
    return clock


def test_training_ends_with_the_time_and_goes_on_after_an_interruption(tmp_path, clock):
    settings = config(budget="1s", log_every=5, checkpoint_every=7)
    module = Timed(clock)
    result = train(module, ToySource(10**9), settings, folder=tmp_path)
    assert result.step == 32
    lrs = [record["lr"] for record in result.history if record["kind"] == "train"]
    assert lrs[-1] < max(lrs)
    again = Timed(clock)
    assert train(again, ToySource(10**9), settings, folder=tmp_path) == result
    assert same(weights(module), weights(again))


def test_a_first_step_that_compiles_does_not_end_the_run(tmp_path, clock):
    result = train(Timed(clock), ToySource(10**9), config(budget="1s", log_every=20, warmup=0.1), folder=tmp_path)
    assert result.step == 32
    rates = [record["lr"] for record in result.history if record["kind"] == "train"]
    assert rates[0] < max(rates)  # it warmed up all the same


def test_under_a_clock_no_step_is_left_out(tmp_path, clock):
    source, seen = ToySource(10**9), []
    result = train(
        Timed(clock), source, config(budget="1s"), folder=tmp_path, on_step=lambda report: seen.append(report.step)
    )
    assert seen == list(range(1, result.step + 1))
    assert source.loaded[: result.step] == [(step, 0) for step in range(result.step)]


class Counted(ToySource):
    def steps_for(self, tokens: float) -> int:
        return max(1, round(tokens / 100))


def test_a_budget_of_work_becomes_steps(tmp_path):
    result = train(Toy(), Counted(3), config(budget="7e5flop"), folder=tmp_path / "a", flops_per_token=1e3)
    assert result.step == 7
    with pytest.raises(RecipeError, match="not known"):
        train(Toy(), ToySource(3), config(budget="7e5flop"), folder=tmp_path / "b", flops_per_token=1e3)
