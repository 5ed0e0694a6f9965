"""The status of a study: read from its files, or shown in the terminal while it runs."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osler.artifacts.run import RunSpec, RunStatus, State, absolute_paths
from osler.core.config import load_recipe
from osler.core.console import console, duration
from osler.core.errors import InputError
from osler.core.files import write_atomic, write_json
from osler.stages.study.matched import run_folder
from osler.stages.study.plan import StudyPlan, absolute_model, expand, runs_folder
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.runner import RunJob
from osler.stages.study.schedule import Schedule

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.table import Table

RECIPE = "study.toml"
RUNS = "runs.json"
_STATES: tuple[State, ...] = ("done", "running", "waiting", "failed")
_MOST_LINES = 10
_SCORING = 0.05
"""Guess of the cost of scoring a trained run, as a share of its training."""


def remember(recipe: StudyRecipe, plan: StudyPlan, out: Path) -> None:
    """Write the recipe, with absolute paths, and the list of runs next to --out."""
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


def recall(path: Path) -> tuple[StudyRecipe, Path] | None:
    """Recipe and --out of the study with this --out or this folder of runs; None if no study was begun there."""
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


def lines(out: Path) -> list[RunLine]:
    """Every run of a study that was begun, from files alone."""
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


def planned_lines(recipe: StudyRecipe, out: Path) -> list[RunLine]:
    """Every run that a recipe would have."""
    plan = expand(recipe, out)
    return _lines([(run.key, run.spec, run.cost) for run in plan.runs], plan.store)


def _lines(runs: Sequence[tuple[str, RunSpec, float]], store: Path) -> list[RunLine]:
    found = [(key, spec, cost, RunStatus.current(run_folder(store, key, spec))) for key, spec, cost in runs]
    return [RunLine(key, spec, cost, status.state, status) for key, spec, cost, status in found]


def summary(lines: Sequence[RunLine], at_once: int | None = None) -> str:
    """The study in one line. A run that several rows share counts once."""
    lines = _once(lines)
    counts = Counter(line.state for line in lines)
    shown = [f"{counts[state]} {state}" for state in _STATES if counts[state] or state == "done"]
    text = f"{len(lines)} runs: {', '.join(shown)}"
    trained = {line.key: line.status.seconds for line in lines if line.status.state == "done"}
    todo = [
        line.cost * (_SCORING if line.key in trained else 1.0) for line in lines if line.state in {"waiting", "running"}
    ]
    if not todo:
        return text
    costs = {line.key: line.cost for line in lines}
    left = time_left(costs, trained, todo, at_once or counts["running"] or 1)
    return text if left is None else f"{text}; about {duration(left)} left"


def time_left(
    costs: Mapping[str, float], seconds: Mapping[str, float], todo: Sequence[float], at_once: int
) -> float | None:
    """Seconds until the costs in `todo` are done, from the seconds that finished runs took; None before the first."""
    known = {key: value for key, value in seconds.items() if value > 0}
    if not known:
        return None
    pace = sum(known.values()) / sum(costs[key] for key in known)
    # A study never ends before its longest remaining run.
    return max(sum(todo) * pace / max(1, at_once), max(todo, default=0.0) * pace)


def states_table(lines: Sequence[RunLine]) -> Table:
    """Models x tasks: how many runs of each cell are done, running and failed."""
    from rich.table import Table

    cells: dict[tuple[str, str], Counter[State]] = {}
    for line in lines:
        for column in ("refinement",) if line.spec.mode == "refine" else line.spec.columns:
            cells.setdefault((line.spec.row, column), Counter())[line.state] += 1
    table = Table(box=None, pad_edge=False)
    table.add_column("model")
    columns = tuple(dict.fromkeys(column for _, column in cells))
    for column in columns:
        table.add_column(column, justify="right")
    for row in dict.fromkeys(row for row, _ in cells):
        table.add_row(row, *(_cell(cells.get((row, column), Counter())) for column in columns))
    return table


def _cell(counts: Counter[State]) -> str:
    total = sum(counts.values())
    if not total:
        return ""
    marks = f" +{counts['running']} running" if counts["running"] else ""
    marks += f" [red]{counts['failed']} failed[/]" if counts["failed"] else ""
    return f"{counts['done']}/{total}{marks}"


def failures(lines: Sequence[RunLine]) -> list[str]:
    """Every failed run with its reason."""
    return [
        f"failed: {line.spec.label}: {line.status.reason or 'unknown reason'} (attempt {line.status.attempts})"
        for line in _once(lines)
        if line.state == "failed"
    ]


def _once(lines: Sequence[RunLine]) -> list[RunLine]:
    """The first line of each run."""
    found: dict[str, RunLine] = {}
    for line in lines:
        found.setdefault(line.key, line)
    return list(found.values())


class StudyView:
    """Shows a study while it runs: a live page in a terminal, otherwise one line per run that ends."""

    def __init__(self, schedule: Schedule, at_once: int, *, live: bool) -> None:
        self._schedule = schedule
        self._at_once = at_once
        self._wanted = live and console().is_terminal
        self._live: Live | None = None

    def __enter__(self) -> StudyView:
        if self._wanted:
            from rich.live import Live

            self._live = Live(console=console(), refresh_per_second=2, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, job: RunJob, status: RunStatus | None) -> None:
        """Show the study after a job began (`status` None) or ended."""
        states, statuses = self._schedule.states, self._schedule.statuses
        lines = [
            RunLine(run.key, run.spec, run.cost, states[run.key], statuses[run.key]) for run in self._schedule.plan.runs
        ]
        if self._live is not None:
            self._live.update(self._page(lines))
        elif status is not None:
            # With a grid, a run is trained first, and scored later if it is chosen.
            verb = "done" if job.score else "trained"
            done = f"failed: {status.reason}" if status.failed else f"{verb} in {duration(status.seconds)}"
            console().print(f"  {job.spec.label}: {done}. {summary(lines, self._at_once)}", markup=False)

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
