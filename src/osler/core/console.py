"""Output for people: the console, progress bars, and how to write durations and speeds. All on standard error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


@cache
def console() -> Console:
    """The console on standard error; standard output is for results."""
    from rich.console import Console

    # Under torchrun only the first process prints.
    return Console(stderr=True, highlight=False, soft_wrap=True, quiet=os.environ.get("RANK", "0") != "0")


class ProgressBar:
    """One progress bar."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def advance(self, amount: float = 1) -> None:
        self._progress.advance(self._task, amount)

    def update(self, completed: float | None = None, status: str | None = None, total: float | None = None) -> None:
        """Set the position, the total, or the short status text at the end of the bar."""
        fields = {} if status is None else {"status": status}
        self._progress.update(self._task, completed=completed, total=total, **fields)  # type: ignore[arg-type]


@contextmanager
def progress(description: str, total: float | None = None, *, training: bool = False) -> Iterator[ProgressBar]:
    """Show a progress bar with the time left; nothing if standard error is not a terminal.

    A `training` bar is shorter to leave room for its status (see `training_status`), which has the time left.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    # Only the status may wrap: a narrow terminal still shows the other columns in full.
    status = TextColumn("{task.fields[status]}", table_column=Column(no_wrap=False))
    everything = (
        TextColumn("{task.description:<24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        status,
    )
    short = (TextColumn("{task.description}"), BarColumn(bar_width=16), MofNCompleteColumn(), status)
    columns = short if training else everything
    with Progress(*columns, console=console(), transient=True, disable=not console().is_terminal) as bars:
        yield ProgressBar(bars, bars.add_task(description, total=total, status=""))


def training_status(
    loss: float | None,
    tokens_per_second: float | None,
    flops_per_second: float | None = None,
    peak: float | None = None,
    seconds_left: float | None = None,
) -> str:
    """Status text of a training bar: loss, speed, share of the device's peak and time left, as far as they are known."""
    parts = [] if loss is None else [f"loss {loss:.3f}"]
    if tokens_per_second:
        parts.append(f"{tokens_per_second:,.0f} tokens/s")
    if flops_per_second:
        share = f" ({flops_per_second / peak:.0%} of peak)" if peak else ""
        parts.append(f"{flop_rate(flops_per_second)}{share}")
    if seconds_left is not None:
        parts.append(f"{duration(seconds_left)} left")
    return "  ".join(parts)


def flop_rate(flops_per_second: float) -> str:
    """Floating-point operations per second with a suitable unit."""
    scale, unit = (1e12, "TFLOP/s") if flops_per_second >= 1e12 else (1e9, "GFLOP/s")
    value = flops_per_second / scale
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"


def flop_count(flops: float) -> str:
    """A number of floating-point operations with a suitable unit."""
    for scale, unit in ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP")):
        if flops >= scale:
            return f"{flops / scale:.3g} {unit}" if flops < 1000 * scale else f"{flops:.3g} FLOP"
    return f"{flops:,.0f} FLOP"


def duration(seconds: float) -> str:
    """A duration such as 40 s, 12 min, 3 h 05 min or 2.5 days."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    hours, minutes = divmod(round(whole / 60), 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours / 24:.1f} days"
