"""What a person sees while osler works: plan lines, one result line a stage, progress bars. All on standard error."""

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
    """The console on standard error, so that standard output stays clean for results."""
    from rich.console import Console

    # Of several processes under torchrun only the first speaks.
    return Console(stderr=True, highlight=False, soft_wrap=True, quiet=os.environ.get("RANK", "0") != "0")


class Bar:
    """One progress bar."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def advance(self, amount: float = 1) -> None:
        """Move on."""
        self._progress.advance(self._task, amount)

    def update(self, completed: float | None = None, status: str | None = None, total: float | None = None) -> None:
        """Set the place, the total, or the short status text at the end of the bar."""
        fields = {} if status is None else {"status": status}
        self._progress.update(self._task, completed=completed, total=total, **fields)  # type: ignore[arg-type]


@contextmanager
def progress(description: str, total: float | None = None) -> Iterator[Bar]:
    """A progress bar with time left; silent where standard error is no terminal."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[status]}"),
    )
    with Progress(*columns, console=console(), transient=True, disable=not console().is_terminal) as bars:
        yield Bar(bars, bars.add_task(description, total=total, status=""))


def training_status(loss: float | None, tokens_per_second: float | None) -> str:
    """The end of a training bar: loss and speed, once they are known."""
    parts = [] if loss is None else [f"loss {loss:.3f}"]
    if tokens_per_second:
        parts.append(f"{tokens_per_second:,.0f} tokens/s")
    return "  ".join(parts)
