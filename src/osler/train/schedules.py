"""Learning-rate schedules: pure functions from a position in the run to a factor of the peak rate.

`position` counts finished steps out of `total`; nothing but their ratio matters after the warm-up, so a schedule can as
well be driven by work or time done.
"""

from __future__ import annotations

from collections.abc import Callable

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
