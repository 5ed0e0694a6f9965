"""Learning-rate schedules, and the pace of a run in steps or by the clock."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from osler.train.parallel import World

if TYPE_CHECKING:
    from osler.train.config import TrainConfig

_MIN_FACTOR = 0.01
"""Smallest learning-rate factor of a warm-up by the clock. Starting from zero would waste the first steps: no time has passed
at the first one, and it is not known yet how much of the warm-up a step takes."""


def linear(position: float, total: float, warmup: float, decay: float, final: float) -> float:
    """Rise over `warmup`, then fall linearly to `final` at the end (`decay` is not used)."""
    return _rise(position, warmup) if position < warmup else _fall(position, start=warmup, end=total, final=final)


def constant(position: float, total: float, warmup: float, decay: float, final: float) -> float:
    """Rise over `warmup`, then stay at the peak."""
    return _rise(position, warmup)


def wsd(position: float, total: float, warmup: float, decay: float, final: float) -> float:
    """Rise over `warmup`, stay at the peak, and fall linearly to `final` over the last `decay` fraction of the run."""
    if position < warmup:
        return _rise(position, warmup)
    return _fall(position, start=max(warmup, total * (1 - decay)), end=total, final=final)


def root(position: float, total: float, warmup: float, decay: float, final: float) -> float:
    """Rise over `warmup`, then fall with the square root of the rest of the run (`decay` is not used).

    This is how BERT is trained with LAMB. The rate drops when the warm-up ends.
    """
    if position < warmup:
        return _rise(position, warmup)
    return final + (1 - final) * math.sqrt(max(0.0, (total - position) / total))


SCHEDULES: dict[str, Callable[[float, float, float, float, float], float]] = {
    "linear": linear,
    "constant": constant,
    "wsd": wsd,
    "root": root,
}


def warmup_steps(warmup: int | float, total: int) -> int:
    """Return the warm-up in steps; a float is a fraction of the run."""
    return warmup if isinstance(warmup, int) else round(warmup * total)


def _rise(position: float, warmup: float) -> float:
    # The first step is already on the ramp; at a rate of zero it would be wasted.
    return min(1.0, (position + 1) / warmup) if warmup else 1.0


def _fall(position: float, *, start: float, end: float, final: float) -> float:
    if position <= start:
        return 1.0
    left = max(0.0, (end - position) / (end - start)) if end > start else 0.0
    return final + (1 - final) * left


class Pace(ABC):
    """How far a run is and when it ends; the same on every rank."""

    total: int | None = None
    """Steps in the run, if known in advance."""

    def begin(self, step: int) -> None:  # noqa: B027 - nothing to do by default
        """Start or resume the run now, with `step` steps complete."""

    @abstractmethod
    def factor(self, index: int) -> float:
        """Return the learning rate of step `index` (from 0), relative to the peak."""

    @abstractmethod
    def fraction(self, step: int) -> float:
        """Return the fraction of the run that is complete after `step` steps."""

    def over(self, step: int) -> bool:
        return self.fraction(step) >= 1.0

    @abstractmethod
    def seconds_left(self, step: int, step_seconds: float) -> float:
        """Estimate the time until the end."""

    def looks_at(self, step: int) -> bool:
        """Whether `observe` must be called after this step even if no log line is due."""
        return False

    def observe(self, step: int, step_seconds: float) -> None:  # noqa: B027
        """Record that `step` steps are complete now, at `step_seconds` per step."""

    def state(self, step: int) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Load the result of `state`."""


class StepPace(Pace):
    """Pace of a run with a fixed number of steps."""

    def __init__(self, config: TrainConfig, total: int) -> None:
        self.total = self._steps = total
        self._config = config
        self._warmup = warmup_steps(config.warmup, total)

    def factor(self, index: int) -> float:
        config = self._config
        return SCHEDULES[config.schedule](index, self._steps, self._warmup, config.decay, config.final_lr_ratio)

    def fraction(self, step: int) -> float:
        return step / self._steps

    def seconds_left(self, step: int, step_seconds: float) -> float:
        return step_seconds * (self._steps - step)


class ClockPace(Pace):
    """Pace of a run with a fixed time, whose schedule ends with the time.

    The clock is read at log lines, when the device is known to have finished, and rank 0's reading counts for all ranks. Between two
    readings every step advances the run at the last measured speed. The first step of a process compiles and takes as long as hundreds
    of others, so it does not count for the speed, and its time is left out of the schedule, where it would use up the warm-up. Time that
    an interrupted run spent up to its last checkpoint stays spent.
    """

    def __init__(
        self, config: TrainConfig, seconds: float, world: World, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._seconds = seconds
        self._world = world
        self._clock = clock
        self._began = clock()
        self._before = 0.0  # seconds that earlier processes spent on this run
        self._spent = 0.0  # at the last reading
        self._lost = 0.0  # part of `_spent` on the first steps of this and earlier processes
        self._step = self._first = 0
        self._step_seconds = 0.0

    def begin(self, step: int) -> None:
        self._began = self._clock()
        self._first = step

    def looks_at(self, step: int) -> bool:
        """Read the clock often at first, to learn the speed, and before the end, which must not depend on an estimate."""
        done = step - self._first
        return done & (done - 1) == 0 or self.over(step)

    def factor(self, index: int) -> float:
        config, place = self._config, self.fraction(index)
        if isinstance(config.warmup, int):
            if index < config.warmup:
                return _rise(index, config.warmup)
            warmup = 0.0
        else:
            warmup = config.warmup
            if place < warmup:
                return max(_MIN_FACTOR, place / warmup)
        return SCHEDULES[config.schedule](place, 1.0, warmup, config.decay, config.final_lr_ratio)

    def observe(self, step: int, step_seconds: float) -> None:
        """Read the clock, on rank 0 for all ranks."""
        spent, step_seconds = self._world.broadcast((self._elapsed(), step_seconds))
        if step - self._first == 1:
            self._lost += spent - self._spent
            step_seconds = 0.0
        self._spent, self._step_seconds, self._step = spent, step_seconds, step

    def seconds_left(self, step: int, step_seconds: float) -> float:
        return max(0.0, self._seconds - self._spent)

    def fraction(self, step: int) -> float:
        """Return the time spent relative to the budget, without the first step of each process."""
        spent = self._spent - self._lost + (step - self._step) * self._step_seconds
        available = self._seconds - self._lost
        return min(1.0, spent / available) if available > 0 else 1.0

    def state(self, step: int) -> dict[str, Any]:
        known = {"step_seconds": self._step_seconds, "lost": self._lost}
        return {"step": step, "seconds": self._elapsed(), **known}

    def load_state(self, state: dict[str, Any]) -> None:
        self._before = self._spent = state["seconds"]
        self._step_seconds, self._lost = state["step_seconds"], state["lost"]
        self._step = self._first = state["step"]

    def _elapsed(self) -> float:
        return self._before + self._clock() - self._began
