"""The status of a study in the terminal."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osler.artifacts.run import RunSpec, RunStatus, State, state_of, time_left, with_whole_paths
from osler.core.config import load_recipe
from osler.core.console import console, duration
from osler.core.errors import InputError
from osler.core.files import write_atomic, write_json
from osler.stages.study.engines import RunExecutor, RunJob, RunOutcome, folder_of
from osler.stages.study.plan import StudyPlan, expand, home
from osler.stages.study.recipe import StudyRecipe

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.table import Table

RECIPE = "study.toml"
RUNS = "runs.json"


@dataclass(frozen=True)
class Remembered:
    """A study that was begun."""

    out: Path
    recipe: StudyRecipe


def remember(recipe: StudyRecipe, plan: StudyPlan, out: Path) -> None:
    """Write the recipe, with whole paths, and the runs."""
    folder = home(Path(os.path.abspath(out)))
    write_atomic(folder / RECIPE, _with_whole_paths(recipe).to_toml())
    runs = [{"key": run.key, "cost": run.cost, "spec": run.spec.plain()} for run in plan.runs]
    write_json(folder / RUNS, {"store": str(plan.store), "runs": runs})


def recall(path: Path) -> Remembered | None:
    """The study whose --out, or whose folder beside it, is given; None where there is none."""
    path = Path(os.path.abspath(path))
    for folder in (home(path), path):
        if (folder / RECIPE).is_file() and folder.name.endswith(".runs"):
            return Remembered(
                folder.with_name(folder.name.removesuffix(".runs")), load_recipe(StudyRecipe, folder / RECIPE)
            )
    return None


def lines(out: Path) -> list[RunLine]:
    """Every run of a study as it stands, in each row that it belongs to, read from files alone."""
    path = home(Path(os.path.abspath(out))) / RUNS
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        store = Path(values["store"])
        runs = [(item["key"], RunSpec.from_plain(item["spec"]), item["cost"]) for item in values["runs"]]
    except FileNotFoundError:
        raise InputError("no list of runs here", where=path, fix="Begin the study first: osler study run") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            "the list of runs is damaged or of another version of osler",
            where=path,
            fix="Write it again: osler study resume, which keeps the runs that are done",
        ) from error
    return _lines(runs, store)


def planned_lines(recipe: StudyRecipe, out: Path, runner: RunExecutor) -> list[RunLine]:
    """Every run that a recipe would have, as it stands in its store, in each row that it belongs to."""
    plan = expand(recipe, out, runner)
    return _lines([(run.key, run.spec, run.cost) for run in plan.runs], plan.store)


def _lines(runs: Sequence[tuple[str, RunSpec, float]], store: Path) -> list[RunLine]:
    found = []
    for key, spec, cost in runs:
        status = state_of(folder_of(store, key, spec))
        found.append(RunLine(key, spec, cost, status.state, status))
    return found


def _with_whole_paths(recipe: StudyRecipe) -> StudyRecipe:
    """The recipe as it works from any folder."""
    models = {
        row: model.changed(model=os.path.abspath(Path(model.model).expanduser()))
        if Path(model.model).expanduser().is_dir()
        else model
        for row, model in recipe.models.items()
    }
    whole = recipe.changed(
        models=models,
        tasks=tuple(Path(os.path.abspath(path)) for path in recipe.tasks),
        folds={name: tuple(Path(os.path.abspath(path)) for path in paths) for name, paths in recipe.folds.items()},
        store=Path(os.path.abspath(recipe.store)) if recipe.store else None,
    )
    return StudyRecipe.model_validate(with_whole_paths(whole.resolved()))


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
        job: RunJob,
        outcome: RunOutcome | None,
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
