"""A study for the eye: a table of rows and columns with what is done, what runs, what failed and why, and the time left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from osler.core.console import console, duration
from osler.stages.study.engine import Job, Outcome
from osler.stages.study.spec import RunSpec
from osler.stages.study.status import RunStatus, State, time_left

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.table import Table

_ORDER: tuple[State, ...] = ("done", "running", "waiting", "failed")
_MANY = 10
_SCORING = 0.05
"""What is left of a run that is trained and was chosen: a guess, for it is short."""


@dataclass(frozen=True)
class RunLine:
    """One run as it stands. A run that several rows share has a line for each."""

    key: str
    spec: RunSpec
    cost: float
    state: State
    status: RunStatus


def summary(lines: Sequence[RunLine], at_once: int | None = None) -> str:
    """The whole study in one line; a run that several rows share counts once."""
    lines = _once(lines)
    counts = Counter(line.state for line in lines)
    text = f"{len(lines)} runs: " + ", ".join(
        f"{counts[state]} {state}" for state in _ORDER if counts[state] or state == "done"
    )
    trained = {line.key: line.status.seconds for line in lines if line.status.state == "done"}
    todo = {
        line.key: line.cost * (_SCORING if line.key in trained else 1.0)
        for line in lines
        if line.state in {"waiting", "running"}
    }
    if not todo:
        return text
    costs = {line.key: line.cost for line in lines}
    left = time_left(costs, trained, todo, at_once or counts["running"] or 1)
    return text if left is None else f"{text}; about {duration(left)} left"


def states_table(lines: Sequence[RunLine]) -> Table:
    """Rows x columns, with done of all in each cell, and what runs and failed beside it."""
    from rich.table import Table

    cells: dict[tuple[str, str], Counter[State]] = {}
    for line in lines:
        columns = ("refinement",) if line.spec.mode == "refine" else line.spec.columns
        for column in columns:
            cells.setdefault((line.spec.row, column), Counter())[line.state] += 1
    table = Table(box=None, pad_edge=False)
    table.add_column("model")
    columns = tuple(dict.fromkeys(column for _, column in cells))
    for column in columns:
        table.add_column(column, justify="right")
    for row in dict.fromkeys(row for row, _ in cells):
        table.add_row(row, *(_cell(cells.get((row, column), Counter())) for column in columns))
    return table


def failures(lines: Sequence[RunLine]) -> list[str]:
    """Every failed run with its reason."""
    return [
        f"failed: {line.spec.label}: {line.status.reason or 'no reason is known'} (attempt {line.status.attempts})"
        for line in _once(lines)
        if line.state == "failed"
    ]


def _once(lines: Sequence[RunLine]) -> list[RunLine]:
    """Each run with its first line alone."""
    found: dict[str, RunLine] = {}
    for line in lines:
        found.setdefault(line.key, line)
    return list(found.values())


def _cell(counts: Counter[State]) -> str:
    total = sum(counts.values())
    if not total:
        return ""
    marks = f" +{counts['running']} running" if counts["running"] else ""
    marks += f" [red]{counts['failed']} failed[/]" if counts["failed"] else ""
    return f"{counts['done']}/{total}{marks}"


class StudyView:
    """Shows a study while it runs: a live page on a terminal, else a line for each run that ends."""

    def __init__(self, runs: Sequence[tuple[str, RunSpec, float]], *, live: bool) -> None:
        self._runs = runs
        self._wanted = live and console().is_terminal
        self._live: Live | None = None
        self._lines: list[RunLine] = []
        self._at_once = 1

    def __enter__(self) -> StudyView:
        if self._wanted:
            from rich.live import Live

            self._live = Live(console=console(), refresh_per_second=2, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(
        self,
        states: Mapping[str, State],
        statuses: Mapping[str, RunStatus],
        at_once: int,
        job: Job,
        outcome: Outcome | None,
    ) -> None:
        """Say where the study stands after a job began (`outcome` None) or ended."""
        self._lines = [RunLine(key, spec, cost, states[key], statuses[key]) for key, spec, cost in self._runs]
        self._at_once = at_once
        if self._live is not None:
            self._live.update(self._page())
        elif outcome is not None:
            # Where dev has to choose first, a run is trained now and, if it is chosen, scored later.
            verb = "done" if job.score else "trained"
            done = "failed" if outcome.failed else f"{verb} in {duration(outcome.status.seconds)}"
            why = f": {outcome.status.reason}" if outcome.failed else ""
            console().print(f"  {job.spec.label}: {done}{why}. {summary(self._lines, at_once)}", markup=False)

    def _page(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        running = [f"running: {line.spec.label}" for line in _once(self._lines) if line.state == "running"]
        broken = failures(self._lines)
        texts = [*running[:_MANY], *broken[-_MANY:]]
        return Group(
            Text(summary(self._lines, self._at_once), style="bold"),
            states_table(self._lines),
            *(Text(text, style="red" if text.startswith("failed") else "dim") for text in texts),
        )
