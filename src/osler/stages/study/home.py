"""What a study leaves beside its --out: its recipe and the list of its runs, so that it can be looked at and gone on with."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osler.core.config import load_recipe
from osler.core.errors import InputError
from osler.core.files import write_atomic, write_json
from osler.stages.study.config import StudyRecipe
from osler.stages.study.engine import Runner
from osler.stages.study.plan import Plan, expand, home
from osler.stages.study.spec import RunSpec
from osler.stages.study.status import state_of
from osler.stages.study.status_view import RunLine
from osler.stages.study.twins import folder_of

RECIPE = "study.toml"
RUNS = "runs.json"


@dataclass(frozen=True)
class Remembered:
    """A study that was begun."""

    out: Path
    recipe: StudyRecipe


def remember(recipe: StudyRecipe, plan: Plan, out: Path) -> None:
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
    """Every run of a study as it stands, read from files alone."""
    path = home(Path(os.path.abspath(out))) / RUNS
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError("no list of runs here", where=path, fix="Begin the study first: osler study run") from error
    store = Path(values["store"])
    found: dict[str, RunLine] = {}
    for item in values["runs"]:
        spec = RunSpec.from_plain(item["spec"])
        status = state_of(folder_of(store, item["key"], spec))
        line = RunLine(item["key"], spec, item["cost"], status.state, status)
        found.setdefault(item["key"], line)
    return list(found.values())


def planned_lines(recipe: StudyRecipe, out: Path, runner: Runner) -> list[RunLine]:
    """Every run that a recipe would have, as it stands in its store."""
    plan = expand(recipe, out, runner)
    found: dict[str, RunLine] = {}
    for run in plan.runs:
        status = state_of(folder_of(plan.store, run.key, run.spec))
        found.setdefault(run.key, RunLine(run.key, run.spec, run.cost, status.state, status))
    return list(found.values())


def _with_whole_paths(recipe: StudyRecipe) -> StudyRecipe:
    """The recipe as it works from any folder."""
    models = {
        row: model.changed(model=os.path.abspath(Path(model.model).expanduser()))
        if Path(model.model).expanduser().is_dir()
        else model
        for row, model in recipe.models.items()
    }
    return recipe.changed(
        models=models,
        tasks=tuple(Path(os.path.abspath(path)) for path in recipe.tasks),
        folds={name: tuple(Path(os.path.abspath(path)) for path in paths) for name, paths in recipe.folds.items()},
        store=Path(os.path.abspath(recipe.store)) if recipe.store else None,
    )
