"""Processes that kill themselves at a chosen moment, for tests of resuming."""

from __future__ import annotations

import os
import signal
from typing import Any


def die_at_call(module: Any, function: str, call: int) -> None:
    """Make this process end by SIGKILL, with no clean-up of any kind, just before the n-th call of a function of a module."""
    real, count = getattr(module, function), [0]

    def counted(*arguments: Any, **options: Any) -> Any:
        count[0] += 1
        if count[0] == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)

    setattr(module, function, counted)
