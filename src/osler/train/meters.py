"""How fast training goes: real tokens a second, model FLOP/s, seconds a step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Rates:
    """Speeds over the last log window, evaluation and checkpoints not counted."""

    tokens_per_second: float
    flops_per_second: float
    step_seconds: float


class Meter:
    """Measures the time spent on steps between two readings."""

    def __init__(self, flops_per_token: float = 0.0, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._flops_per_token = flops_per_token
        self._clock = clock
        self.start(0)

    def start(self, step: int) -> None:
        """Begin a window at `step`."""
        self._step = step
        self._since = self._clock()
        self._paused = 0.0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out the time spent inside."""
        begun = self._clock()
        try:
            yield
        finally:
            self._paused += self._clock() - begun

    def read(self, step: int, tokens: int) -> Rates:
        """Rates of the window that ends at `step` with `tokens` done in it; the next window begins."""
        seconds = max(self._clock() - self._since - self._paused, 1e-9)
        each = seconds / max(step - self._step, 1)
        speed = tokens / seconds
        self.start(step)
        return Rates(speed, speed * self._flops_per_token, each)
