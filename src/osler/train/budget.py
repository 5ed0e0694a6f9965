"""Budgets instead of a number of steps: so much time, or so much work."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
_TIME = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
_WORK = re.compile(r"(\d+(?:\.\d+)?(?:e\+?\d+)?)\s*flops?", re.IGNORECASE)


@dataclass(frozen=True)
class Budget:
    """Exactly one of them is set."""

    seconds: float | None = None
    flops: float | None = None

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Read `25m`, `1h30m`, `90s` or `1e18flop`; a ValueError says what is meant."""
        written = text.strip().replace(" ", "")
        if work := _WORK.fullmatch(written):
            budget = cls(flops=float(work[1]))
        elif written and (time := _TIME.fullmatch(written)):
            budget = cls(
                seconds=sum(float(part) * _UNITS[unit] for part, unit in zip(time.groups(), "hms", strict=True) if part)
            )
        else:
            raise ValueError(f"{text!r} is no budget; write a time such as 25m or 1h30m, or work such as 1e18flop")
        if not (budget.seconds or budget.flops):
            raise ValueError("a budget must be greater than 0")
        return budget
