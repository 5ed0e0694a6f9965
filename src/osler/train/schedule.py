"""Learning-rate schedules and the pace of a run, counted in steps or by the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from osler.train.parallel import World

if TYPE_CHECKING:
    from osler.train.config import TrainConfig

Schedule = Callable[[float, float, float, float, float], float]


def linear(position: float, total: float, warmup: float, decay: float, final: float) -> float:
    """Rise over `warmup`, then fall in a straight line to `final` at the end (`decay` has no part in it)."""
    if position < warmup:
        return rise(position, warmup)
    return _fall(position, start=warmup, end=total, final=final)


def constant(position: float, total: float, warmup: float, decay: float, final: float) -> float:
    """Rise over `warmup`, then stay."""
    return rise(position, warmup)


def wsd(position: float, total: float, warmup: float, decay: float, final: float) -> float:
    """Warm up, stay, and fall to `final` in a straight line over the last `decay` fraction of the run."""
    if position < warmup:
        return rise(position, warmup)
    return _fall(position, start=max(warmup, total * (1 - decay)), end=total, final=final)


SCHEDULES: dict[str, Schedule] = {"linear": linear, "constant": constant, "wsd": wsd}


def warmup_steps(warmup: int | float, total: int) -> int:
    """The warm-up in steps: a whole number says so itself, a fraction is one of the run."""
    return warmup if isinstance(warmup, int) else round(warmup * total)


def rise(position: float, warmup: float) -> float:
    """The warm-up: a straight line up to the peak."""
    # The first update already moves: it counts as one step of the ramp, where a ramp from zero would waste it.
    return min(1.0, (position + 1) / warmup) if warmup else 1.0


def _fall(position: float, *, start: float, end: float, final: float) -> float:
    if position <= start:
        return 1.0
    left = max(0.0, (end - position) / (end - start)) if end > start else 0.0
    return final + (1 - final) * left


_LEAST = 0.01
"""The least factor of a warm-up by the clock. No time has passed at the first update, and after it none that counts: from zero
both would be wasted, and how long a step is as part of the ramp, by which step-driven runs begin, is not known yet."""


class Pace(Protocol):
    """The place of a step in its run; the same on every rank."""

    total: int | None
    """Steps in the whole run, where that is known beforehand."""

    def begin(self, step: int) -> None:
        """The run starts, or goes on, now, with so many steps done."""

    def looks_at(self, step: int) -> bool:
        """Whether it must be told of this step, log line or not."""
        ...

    def factor(self, index: int) -> float:
        """What step `index` (from 0) multiplies the peak learning rate with."""
        ...

    def over(self, step: int) -> bool:
        """Whether the run ends after `step` steps."""
        ...

    def observe(self, step: int, step_seconds: float) -> None:
        """All work up to `step` is done now, and a step takes so long."""

    def seconds_left(self, step: int, step_seconds: float) -> float:
        """The time until the end."""
        ...

    def fraction(self, step: int) -> float:
        """The part of the run that is done after `step` steps."""
        ...

    def state(self, step: int) -> dict[str, Any]:
        """What a checkpoint at `step` must hold."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Take back what `state` gave."""


class StepPace:
    """A run of a fixed number of steps."""

    def __init__(self, config: TrainConfig, total: int) -> None:
        self.total: int | None = total
        self._steps = total
        self._config = config
        self._warmup = warmup_steps(config.warmup, total)

    def begin(self, step: int) -> None:
        """Nothing: time plays no part."""

    def looks_at(self, step: int) -> bool:
        """Never."""
        return False

    def factor(self, index: int) -> float:
        """The schedule at a step of a known number of steps."""
        config = self._config
        return SCHEDULES[config.schedule](index, self._steps, self._warmup, config.decay, config.final_lr_ratio)

    def over(self, step: int) -> bool:
        """After the last step."""
        return step >= self._steps

    def observe(self, step: int, step_seconds: float) -> None:
        """Nothing: time plays no part."""

    def seconds_left(self, step: int, step_seconds: float) -> float:
        """The steps that are left at the present speed."""
        return step_seconds * (self._steps - step)

    def fraction(self, step: int) -> float:
        """Steps done of all."""
        return step / self._steps

    def state(self, step: int) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Nothing."""


class ClockPace:
    """A run of a fixed time, which ends its decay when the time is over.

    The clock is read when the device is known to have finished (at log lines) and told to all ranks by the first; between two readings
    the place moves on with every step at the speed last seen. The first step of a process compiles and takes as long as hundreds of others:
    it says nothing of the speed, and the schedule is that of the time besides it, so that it does not swallow the warm-up. What an
    interrupted run spent up to its last checkpoint stays spent.
    """

    total: int | None = None

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
        self._lost = 0.0  # of that, on the first steps of this process and of earlier ones
        self._step = self._first = 0
        self._step_seconds = 0.0

    def begin(self, step: int) -> None:
        """Start the clock."""
        self._began = self._clock()
        self._first = step

    def looks_at(self, step: int) -> bool:
        """Often at first, to learn the speed, and before the end, which no estimate decides."""
        done = step - self._first
        return done & (done - 1) == 0 or self.over(step)

    def factor(self, index: int) -> float:
        """The schedule at the part of the time that is over."""
        config, place = self._config, self.fraction(index)
        if isinstance(config.warmup, int):
            if index < config.warmup:
                return rise(index, config.warmup)
            warmup = 0.0
        else:
            warmup = config.warmup
            if place < warmup:
                return max(_LEAST, place / warmup)
        return SCHEDULES[config.schedule](place, 1.0, warmup, config.decay, config.final_lr_ratio)

    def over(self, step: int) -> bool:
        """When the time is over."""
        return self.fraction(step) >= 1.0

    def observe(self, step: int, step_seconds: float) -> None:
        """Read the clock, on the first rank for all."""
        spent, step_seconds = self._world.decide(lambda: (self._elapsed(), step_seconds))
        if step - self._first == 1:
            self._lost += spent - self._spent
            step_seconds = 0.0
        self._spent, self._step_seconds, self._step = spent, step_seconds, step

    def seconds_left(self, step: int, step_seconds: float) -> float:
        """What is left of the budget."""
        return max(0.0, self._seconds - self._spent)

    def fraction(self, step: int) -> float:
        """Time spent of the budget, less what first steps took."""
        spent = self._spent - self._lost + (step - self._step) * self._step_seconds
        whole = self._seconds - self._lost
        return min(1.0, spent / whole) if whole > 0 else 1.0

    def state(self, step: int) -> dict[str, Any]:
        """The time spent up to now, and the speed."""
        known = {"step_seconds": self._step_seconds, "lost": self._lost}
        return {"step": step, "seconds": self._elapsed(), **known}

    def load_state(self, state: dict[str, Any]) -> None:
        """Keep the place of the run that was interrupted."""
        self._before = self._spent = state["seconds"]
        self._step_seconds, self._lost = state["step_seconds"], state["lost"]
        self._step = self._first = state["step"]

    def _elapsed(self) -> float:
        return self._before + self._clock() - self._began
