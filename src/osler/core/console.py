"""Console output on standard error: progress bars, and formatting of counts, lists, durations and speeds."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
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


class _Lines(ProgressBar, ABC):
    """Progress as lines of text, printed whenever `_due` returns True."""

    def __init__(self, progress: Progress, task: TaskID, clock: Callable[[], float]) -> None:
        super().__init__(progress, task)
        self._clock = clock
        self._began = self._shown = clock()

    def advance(self, amount: float = 1) -> None:
        super().advance(amount)
        self._show_if_due()

    def update(self, completed: float | None = None, status: str | None = None, total: float | None = None) -> None:
        super().update(completed, status, total)
        self._show_if_due()

    def _show_if_due(self) -> None:
        if self._due():
            self._shown = self._clock()
            self._show()

    def _counts(self) -> str:
        task = self._progress.tasks[0]
        total = "" if task.total is None else f"/{task.total:,.0f}"
        return f"{task.description} {task.completed:,.0f}{total}"

    def _status(self) -> str:
        return str(self._progress.tasks[0].fields["status"])

    @abstractmethod
    def _due(self) -> bool: ...

    @abstractmethod
    def _show(self) -> None: ...


class _NotebookLine(_Lines):
    """A progress line in a notebook cell, updated in place. rich's own bars need ipywidgets there."""

    def __init__(self, progress: Progress, task: TaskID, clock: Callable[[], float]) -> None:
        from IPython.display import display

        super().__init__(progress, task, clock)
        self._handle = display(self._line(), raw=True, display_id=True)

    def _line(self) -> dict[str, str]:
        return {"text/plain": f"{self._counts()}  {self._status()}"}

    def _due(self) -> bool:
        return self._clock() - self._shown > 0.25 or self._progress.finished

    def _show(self) -> None:
        self._handle.update(self._line(), raw=True)


class _LogLines(_Lines):
    """Occasional progress lines in a log file or pipe: counts, speed and time left.

    The first line comes after 30 seconds, so short jobs print none. After that the interval is a twentieth of the elapsed time,
    at least 30 seconds and at most 10 minutes, which keeps the log of a long run short.
    """

    def _due(self) -> bool:
        now = self._clock()
        return now - self._shown >= min(600.0, max(30.0, (now - self._began) / 20))

    def _show(self) -> None:
        console().print(self._line(), markup=False)

    def _line(self) -> str:
        task, seconds = self._progress.tasks[0], self._clock() - self._began
        parts = [self._counts()]
        if task.total:
            parts[0] += f" ({task.completed / task.total:.0%})"
        # The status of a training run already has speed and time left.
        if "left" not in self._status() and task.completed:
            rate = task.completed / seconds
            parts.append(f"{rate:,.3g}/s" if rate >= 1 else f"{1 / rate:,.3g} s each")
            if task.total is not None:
                parts.append(f"{duration(max(0.0, task.total - task.completed) / rate)} left")
        return "  ".join([*parts, self._status()]).rstrip()


def quiet() -> bool:
    """Whether only results, warnings and errors are printed (`osler --quiet`, or OSLER_QUIET=1)."""
    return os.environ.get("OSLER_QUIET", "0") not in ("", "0")


@contextmanager
def progress(
    description: str,
    total: float | None = None,
    *,
    training: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[ProgressBar]:
    """Show progress and the time left: a bar in a terminal, a line in a notebook, occasional lines in a log file.

    A `training` bar is shorter, to leave room for its status (see `training_status`), which includes the time left.
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

    # Only the status may wrap, so that a narrow terminal shows the other columns in full.
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
    terminal = console().is_terminal and not console().is_jupyter
    with Progress(*columns, console=console(), transient=True, disable=quiet() or not terminal) as bars:
        task = bars.add_task(description, total=total, status="")
        if quiet() or terminal:
            yield ProgressBar(bars, task)
        else:
            yield (_NotebookLine if console().is_jupyter else _LogLines)(bars, task, clock)


def training_status(
    loss: float | None,
    tokens_per_second: float | None,
    flops_per_second: float | None = None,
    peak: float | None = None,
    seconds_left: float | None = None,
) -> str:
    """Return the status of a training bar: loss, speed, share of the device's peak and time left, where known."""
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
    """Format floating-point operations per second, with a suitable unit."""
    scale, unit = (1e12, "TFLOP/s") if flops_per_second >= 1e12 else (1e9, "GFLOP/s")
    value = flops_per_second / scale
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"


def flop_count(flops: float) -> str:
    """Format a number of floating-point operations, with a suitable unit."""
    for scale, unit in ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP")):
        if flops >= scale:
            return f"{flops / scale:.3g} {unit}" if flops < 1000 * scale else f"{flops:.3g} FLOP"
    return f"{flops:,.0f} FLOP"


def count_text(number: int, noun: str) -> str:
    """Format a number of things: 1 run, 2,000 runs."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def list_text(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """List the first names, and say how many others there are: a, b, c and 4 more."""
    others = len(names) - most
    return separator.join(names[:most]) + (f" and {others:,} more" if others > 0 else "")


def duration(seconds: float) -> str:
    """Format a duration: 40 s, 12 min, 3 h 05 min or 2.5 days."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    hours, minutes = divmod(round(whole / 60), 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours / 24:.1f} days"
