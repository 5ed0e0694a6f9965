from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from train_toys import Toy, ToySource, config, same, weights

from osler.core.errors import RecipeError
from osler.train.budget import Budget
from osler.train.distributed import World
from osler.train.loop import train
from osler.train.pace import ClockPace, StepPace


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
    result.begin()
    return result


def test_the_clock_drives_the_schedule_to_its_end():
    clock = Clock()
    run = pace(clock)
    clock.now += 30  # compiling
    run.observe(1, 30.0)
    run.observe(1, 0.5)
    assert run.factor(1) == pytest.approx(1.0)
    assert run.fraction(11) == pytest.approx(0.35)  # ten steps later, at half a second each
    clock.now += 60
    run.observe(100, 0.5)
    assert run.factor(100) == pytest.approx(0.5)  # half of the last fifth is over
    assert run.seconds_left(100, 0.5) == pytest.approx(10)
    assert not run.over(119)
    assert run.over(120)
    assert run.factor(120) == 0.0


def test_a_warm_up_may_be_a_part_of_the_time_or_a_number_of_steps():
    clock = Clock()
    by_time, by_steps = pace(clock), pace(clock, warmup=10)
    clock.now += 5
    for each in (by_time, by_steps):
        each.observe(4, 0.0)
    assert by_time.factor(4) == pytest.approx(0.5)
    assert by_steps.factor(4) == pytest.approx(0.5)
    assert by_steps.factor(10) == 1.0


def test_a_resumed_run_keeps_its_place():
    clock = Clock()
    first = pace(clock)
    clock.now += 40
    first.observe(50, 0.8)
    state = first.state(50)
    clock.now += 10_000  # a weekend
    second = pace(clock)
    second.load_state(state)
    assert second.fraction(50) == pytest.approx(0.4)
    clock.now += 20
    second.observe(75, 0.8)
    assert second.fraction(75) == pytest.approx(0.6)


@given(st.integers(1, 50), st.floats(0.0, 0.9))
def test_steps_end_where_they_should(total, warmup):
    run = StepPace(config(warmup=warmup), total)
    assert [run.over(step) for step in range(1, total + 1)] == [False] * (total - 1) + [True]
    assert run.fraction(total) == 1.0


def test_training_ends_with_the_time_and_goes_on_after_an_interruption(tmp_path):
    module = Toy()
    result = train(module, ToySource(10**9), config(budget="0.4s", log_every=5, checkpoint_every=7), folder=tmp_path)
    assert 1 < result.step < 10**6
    lrs = [record["lr"] for record in result.history if record["kind"] == "train"]
    assert lrs[-1] < max(lrs)
    again = Toy()
    assert (
        train(again, ToySource(10**9), config(budget="0.4s", log_every=5, checkpoint_every=7), folder=tmp_path)
        == result
    )
    assert same(weights(module), weights(again))


class Counted(ToySource):
    def steps_for(self, tokens: float) -> int:
        return max(1, round(tokens / 100))


def test_a_budget_of_work_becomes_steps(tmp_path):
    result = train(Toy(), Counted(3), config(budget="7e5flop"), folder=tmp_path / "a", flops_per_token=1e3)
    assert result.step == 7
    with pytest.raises(RecipeError, match="not known"):
        train(Toy(), ToySource(3), config(budget="7e5flop"), folder=tmp_path / "b", flops_per_token=1e3)
