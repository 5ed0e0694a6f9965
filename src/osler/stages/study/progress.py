"""The status of a study, read from its files or shown in the terminal while it runs."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osler.artifacts.run import RunSpec, RunStatus, State, absolute_paths, is_trained
from osler.core.config import load_recipe
from osler.core.console import console, count_text, duration
from osler.core.errors import InputError
from osler.core.files import write_atomic, write_json
from osler.stages.study.matched import run_folder
from osler.stages.study.plan import StudyPlan, absolute_model, runs_folder
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.runner import RunJob
from osler.stages.study.schedule import Schedule

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.table import Table

RECIPE = "study.toml"
RUNS = "runs.json"
_STATES: tuple[State, ...] = ("done", "running", "waiting", "stopped", "failed")
_BROKEN: tuple[State, ...] = ("stopped", "failed")
_MOST_LINES = 10
_SCORING = 0.05
"""Assumed cost of scoring a trained run, as a share of its training."""
_INTERVAL = 60.0
"""Seconds between progress lines without a terminal."""


def save_study(recipe: StudyRecipe, plan: StudyPlan, out: Path) -> None:
    """Save the recipe, with absolute paths, and the list of runs next to --out."""
    models = {row: model.changed(model=absolute_model(model.model)) for row, model in recipe.models.items()}
    absolute = recipe.changed(
        models=models,
        tasks=tuple(Path(os.path.abspath(path)) for path in recipe.tasks),
        folds={name: tuple(Path(os.path.abspath(path)) for path in paths) for name, paths in recipe.folds.items()},
        store=Path(os.path.abspath(recipe.store)) if recipe.store else None,
    )
    absolute = StudyRecipe.model_validate(absolute_paths(absolute.resolved()))
    folder = runs_folder(Path(os.path.abspath(out)))
    write_atomic(folder / RECIPE, absolute.to_toml())
    runs = [{"key": run.key, "cost": run.cost, "spec": run.spec.to_dict()} for run in plan.runs]
    write_json(folder / RUNS, {"store": str(plan.store), "runs": runs})


def load_study(path: Path) -> tuple[StudyRecipe, Path] | None:
    """Return recipe and --out of the study with this --out or runs folder, or None if no study was started there."""
    path = Path(os.path.abspath(path))
    for folder in (runs_folder(path), path):
        if (folder / RECIPE).is_file() and folder.name.endswith(".runs"):
            out = folder.with_name(folder.name.removesuffix(".runs"))
            return load_recipe(StudyRecipe, folder / RECIPE), out
    return None


@dataclass(frozen=True)
class RunLine:
    """The state of one run. A run that several rows share has one line per row."""

    key: str
    spec: RunSpec
    cost: float
    state: State
    status: RunStatus
    trained: bool

    @property
    def shown(self) -> State:
        """The state for counts. A trained run counts as done while it waits for its score, so counts never go down."""
        return "done" if self.trained and self.state in {"waiting", "running"} else self.state


def lines(out: Path) -> list[RunLine]:
    """Read every run of a started study from its files."""
    path = runs_folder(Path(os.path.abspath(out))) / RUNS
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        store = Path(values["store"])
        runs = [(item["key"], RunSpec.from_dict(item["spec"]), item["cost"]) for item in values["runs"]]
    except FileNotFoundError:
        raise InputError("no list of runs here", where=path, fix="Begin the study first: osler study run") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            "the list of runs is damaged or from another version of osler",
            where=path,
            fix="Write it again with osler study resume, which keeps finished runs",
        ) from error
    return _lines(runs, store)


def planned_lines(plan: StudyPlan) -> list[RunLine]:
    """Return a line for every run of a plan."""
    return _lines([(run.key, run.spec, run.cost) for run in plan.runs], plan.store)


def _lines(runs: Sequence[tuple[str, RunSpec, float]], store: Path) -> list[RunLine]:
    found = []
    for key, spec, cost in runs:
        folder = run_folder(store, key, spec)
        status = RunStatus.current(folder)
        found.append(RunLine(key, spec, cost, status.state, status, is_trained(folder)))
    return found


def summary(lines: Sequence[RunLine], at_once: int | None = None) -> str:
    """Summarise the study in one line. A run that several rows share counts once."""
    lines = _once(lines)
    counts = Counter(line.shown for line in lines)
    to_score = sum(line.shown != line.state for line in lines)
    shown = [f"{counts['done']} done{f' ({to_score} to be scored)' if to_score else ''}"]
    shown += [f"{counts[state]} {state}" for state in _STATES[1:] if counts[state]]
    text = f"{count_text(len(lines), 'run')}: {', '.join(shown)}"
    known = {line.key: line.status.seconds for line in lines if line.status.state == "done"}
    unfinished = [line for line in lines if line.state in {"waiting", "running", "stopped"}]
    if not unfinished:
        return text
    todo = [line.cost * (_SCORING if line.trained else 1.0) for line in unfinished]
    costs = {line.key: line.cost for line in lines}
    running = sum(line.state == "running" for line in lines)
    left = time_left(costs, known, todo, at_once or running or 1)
    return text if left is None else f"{text}; about {duration(left)} left"


def time_left(
    costs: Mapping[str, float], seconds: Mapping[str, float], todo: Sequence[float], at_once: int
) -> float | None:
    """Estimate the seconds for the costs in `todo` from those of finished runs; None before the first has finished."""
    known = {key: value for key, value in seconds.items() if value > 0}
    if not known:
        return None
    pace = sum(known.values()) / sum(costs[key] for key in known)
    # A study never ends before its longest remaining run.
    return max(sum(todo) * pace / max(1, at_once), max(todo, default=0.0) * pace)


def states_table(lines: Sequence[RunLine]) -> Table:
    """Build a table of models and tasks with the number of done, running, stopped and failed runs of each cell."""
    from rich.table import Table
    from rich.text import Text

    cells: dict[tuple[str, str], Counter[State]] = {}
    for line in lines:
        for column in ("refinement",) if line.spec.mode == "refine" else line.spec.columns:
            cells.setdefault((line.spec.row, column), Counter())[line.shown] += 1
    models, tasks = dict.fromkeys(row for row, _ in cells), dict.fromkeys(column for _, column in cells)
    table = Table(box=None, pad_edge=False)
    # A terminal scrolls down but not sideways.
    by_task = len(tasks) > len(models)
    table.add_column("task" if by_task else "model", overflow="fold")
    down, across = (tasks, models) if by_task else (models, tasks)
    for name in across:
        table.add_column(Text(name), justify="right", overflow="fold")
    for name in down:
        places = [(other, name) if by_task else (name, other) for other in across]
        table.add_row(Text(name), *(_cell(cells.get(place, Counter())) for place in places))
    return table


def _cell(counts: Counter[State]) -> str:
    total = sum(counts.values())
    if not total:
        return ""
    marks = f" +{counts['running']} running" if counts["running"] else ""
    marks += "".join(f" [red]{counts[state]} {state}[/]" for state in _BROKEN if counts[state])
    return f"{counts['done']}/{total}{marks}"


def failures(lines: Sequence[RunLine]) -> list[str]:
    """Describe every run that stopped or failed, with its reason."""
    return [
        f"{line.state}: {line.spec.label}: {line.status.reason or 'unknown reason'} (attempt {line.status.attempts})"
        for line in _once(lines)
        if line.state in _BROKEN
    ]


def _once(lines: Sequence[RunLine]) -> list[RunLine]:
    """Return the first line of each run."""
    found: dict[str, RunLine] = {}
    for line in lines:
        found.setdefault(line.key, line)
    return list(found.values())


class StudyView:
    """Shows a study while it runs: live in a terminal, otherwise one line per finished run and one per minute."""

    def __init__(
        self, schedule: Schedule, at_once: int, *, live: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._schedule = schedule
        self._at_once = at_once
        self._wanted = live and console().is_terminal
        self._live: Live | None = None
        self._clock = clock
        self._printed = clock()

    def __enter__(self) -> StudyView:
        if self._wanted:
            from rich.live import Live

            self._live = Live(console=console(), refresh_per_second=2, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, job: RunJob | None = None, status: RunStatus | None = None) -> None:
        """Show the study after a job started (`status` None), after it ended, or while waiting (no job)."""
        if self._live is not None:
            if job is not None:
                self._live.update(self._page(self._lines()))
            return
        text = ""
        if job is not None and status is not None:
            # With a grid, a run is trained first and scored later if chosen.
            verb = "done" if job.score else "trained"
            broken = status.failed or status.stopped
            done = f"{status.state}: {status.reason}" if broken else f"{verb} in {duration(status.seconds)}"
            text = f"{job.spec.label}: {done}. "
        elif self._clock() - self._printed < _INTERVAL:
            return
        self._printed = self._clock()
        console().print(f"  {text}{summary(self._lines(), self._at_once)}", markup=False)

    def _lines(self) -> list[RunLine]:
        states, statuses = self._schedule.states, self._schedule.statuses
        return [
            RunLine(run.key, run.spec, run.cost, states[run.key], status, status.state == "done")
            for run in self._schedule.plan.runs
            for status in [statuses[run.key]]
        ]

    def _page(self, lines: Sequence[RunLine]) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        running = [f"running: {line.spec.label}" for line in _once(lines) if line.state == "running"]
        return Group(
            Text(summary(lines, self._at_once), style="bold"),
            states_table(lines),
            *(Text(text, style="dim") for text in running[:_MOST_LINES]),
            *(Text(text, style="red") for text in failures(lines)[-_MOST_LINES:]),
        )
