"""What a study leaves beside its --out: its recipe and the list of its runs, so that it can be looked at and gone on with."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osler.core.config import load_recipe
from osler.core.errors import InputError
from osler.core.files import write_atomic, write_json
from osler.stages.study.config import StudyRecipe
from osler.stages.study.engine import Runner
from osler.stages.study.paths import with_whole_paths
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


def planned_lines(recipe: StudyRecipe, out: Path, runner: Runner) -> list[RunLine]:
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
