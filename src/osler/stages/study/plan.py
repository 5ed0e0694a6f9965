"""From a recipe to runs: models x columns x grid points x seeds x fractions."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Literal

from osler.artifacts.run import Mode, RunSpec, with_whole_paths
from osler.artifacts.task_folder import TaskFolder
from osler.core.artifact import Artifact
from osler.core.config import Recipe
from osler.core.errors import RecipeError
from osler.stages.study.checks import (
    RUNTIME,
    check_grid,
    check_modes,
    check_names,
    check_readings,
    check_settings,
    check_twin,
)
from osler.stages.study.engines import RunExecutor
from osler.stages.study.recipe import Refinement, StudyModel, StudyRecipe, without_turns
from osler.train.config import TrainConfig


def columns_of(recipe: StudyRecipe) -> dict[str, tuple[TaskFolder, ...]]:
    """Every column with its task or the tasks of its folds, in recipe order."""
    columns: dict[str, tuple[TaskFolder, ...]] = {}
    for path in recipe.tasks:
        task = TaskFolder.open(Path(os.path.abspath(path)))
        if task.card.name in columns:
            raise RecipeError(f"tasks: the column {task.card.name!r} is given twice", fix="Give each task once")
        columns[task.card.name] = (task,)
    for name, paths in recipe.folds.items():
        if name in columns:
            raise RecipeError(f"folds: the column {name!r} is among the tasks too", fix="Give it once")
        columns[name] = tuple(TaskFolder.open(Path(os.path.abspath(path))) for path in paths)
    return columns


def size(task: TaskFolder) -> int:
    """How much there is to learn from: bytes of the training records before compression."""
    return task.uncompressed_bytes("train") or 1


Edge = Literal["lowest", "highest"]

MARKS: dict[Edge, str] = {"lowest": "↓", "highest": "↑"}
_BEYOND: dict[Edge, str] = {"lowest": "smaller", "highest": "larger"}


def edges(chosen: Mapping[str, Any], tried: Iterable[Mapping[str, Any]]) -> dict[str, Edge]:
    """By setting: whether the chosen grid point has the smallest or largest of the numbers that were tried."""
    points = list(tried)
    found: dict[str, Edge] = {}
    for name, value in chosen.items():
        values: list[Any] = [point.get(name) for point in points]
        if not all(_is_number(item) for item in [value, *values]) or len(set(values)) < 2:
            continue
        if value == min(values) and value > _end(value):
            found[name] = "lowest"
        elif value == max(values) and value < _largest(name):
            found[name] = "highest"
    return found


def edge_text(found: Iterable[tuple[str, Edge]]) -> str:
    """What the marks mean and what to do, for settings (by the name that a table shows) and their edges; empty where there are none."""
    said = [
        f"{MARKS[edge]} {name} was chosen at the {edge} value of the grid: {_BEYOND[edge]} ones may do better."
        for name, edge in dict.fromkeys(found)
    ]
    return " ".join([*said, "Widen the grid there; only the new runs are done."]) if said else ""


def _end(value: float) -> float:
    """Where settings end below: no count (epochs, texts of a batch) is less than one, and nothing less than zero."""
    return 1 if isinstance(value, int) else 0


def _largest(name: str) -> float:
    """Where a setting of the training loop ends above: a share (layer_decay) at one. Of other settings nothing is known here."""
    section, _, last = name.rpartition(".")
    field = TrainConfig.model_fields.get(last) if section == "train" else None
    ends = [getattr(item, "le", None) for item in (field.metadata if field else ())]
    return next((float(end) for end in ends if end is not None), math.inf)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_USUAL_EPOCHS = 10
_FIELD: dict[Mode, Literal["single", "together", "pairs"]] = {
    "single": "single",
    "together": "together",
    "pair": "pairs",
}


@dataclass(frozen=True)
class PlannedRun:
    """A run, its content address and how long it is expected to take, in no unit."""

    spec: RunSpec
    key: str
    cost: float


@dataclass(frozen=True)
class StudyPlan:
    """Every run of a study, refinements before the runs that start from them."""

    runs: tuple[PlannedRun, ...]
    store: Path
    columns: dict[str, tuple[TaskFolder, ...]]
    """The task of each column, or the tasks of its folds."""
    digests: dict[str, str]
    """Of each row's model."""

    def folder(self, key: str) -> Path:
        """Where a run is kept."""
        return self.store / key


def expand(recipe: StudyRecipe, out: Path, runner: RunExecutor) -> StudyPlan:
    """All runs of a study; whatever is wrong with the recipe is said now and not after hours."""
    columns = columns_of(recipe)
    check_names(recipe, columns)
    check_grid(recipe, columns)
    check_modes(recipe, columns)
    digests = {row: runner.identify(model.model) for row, model in recipe.models.items()}
    expansion = _Expansion(recipe, columns, digests, runner)
    store = Path(os.path.abspath(recipe.store or home(out)))
    runs = tuple(expansion.runs())
    check_readings(recipe, columns, [run.spec for run in runs])
    return StudyPlan(runs, store, columns, digests)


def home(out: Path) -> Path:
    """The folder beside a study's --out that holds its recipe and, where no store is named, its runs."""
    return out.with_name(f"{out.name}.runs")


def merged(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with others on top, section by section."""
    result = dict(common)
    for key, value in own.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merged(result[key], value) if both else value
    return result


def points(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All combinations of a grid; one empty point where there is no grid."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


@dataclass(frozen=True)
class _Start:
    """What all runs of a row, fraction and seed start from."""

    row: str
    model: StudyModel
    fraction: float
    seed: int
    after: str | None = None


@dataclass(frozen=True)
class _Part:
    """What a run learns."""

    mode: Mode
    columns: tuple[str, ...]
    fold: int | None = None


class _Expansion:
    def __init__(
        self,
        recipe: StudyRecipe,
        columns: Mapping[str, Sequence[TaskFolder]],
        digests: Mapping[str, str],
        runner: RunExecutor,
    ) -> None:
        self.recipe = recipe
        self.columns = columns
        self.digests = digests
        self.runner = runner
        self.fractions = (1.0, *recipe.fractions)
        self.sizes = {task.artifact.manifest.digest: size(task) for tasks in columns.values() for task in tasks}
        self.checked: dict[str, tuple[str, ...]] = {}

    def runs(self) -> Iterator[PlannedRun]:
        for row, model in self.recipe.models.items():
            for fraction in self.fractions:
                for seed in self.recipe.seeds:
                    start = _Start(row, model, fraction, seed)
                    if model.refine:
                        refinement = self._refinement(start, model.refine)
                        yield refinement
                        start = replace(start, after=refinement.key)
                    for part in self._parts():
                        for point in points(self.recipe.grid):
                            planned = self._point(start, part, point)
                            yield planned
                            if part.mode in ("together", "pair") and fraction == 1.0:
                                yield from self._twins(start, planned, point)

    def _parts(self) -> Iterator[_Part]:
        """The columns of each run of a row, seed and fraction."""
        sets = [self.recipe.groups[name] for name in self.recipe.within] or [tuple(self.columns)]
        for mode in self.recipe.modes:
            if mode == "single":
                for name, tasks in self.columns.items():
                    for number in range(len(tasks)):
                        yield _Part("single", (name,), number if len(tasks) > 1 else None)
            elif mode == "together":
                yield from (_Part("together", names) for names in sets)
            else:
                pairs = (pair for names in sets for pair in itertools.combinations(names, 2))
                yield from (_Part("pair", pair) for pair in pairs)

    def _refinement(self, start: _Start, refine: Refinement) -> PlannedRun:
        settings = merged(merged(self.recipe.finetune, start.model.settings), refine.settings)
        where = f"settings of the refinement of {start.row}"
        planned = self._planned(start, _Part("refine", refine.tasks), settings, {}, where)
        return replace(planned, spec=replace(planned.spec, only_start=not refine.score))

    def _point(self, start: _Start, part: _Part, point: Mapping[str, Any]) -> PlannedRun:
        settings = self._settings(start, part)
        where = f"settings of {start.row} on {'+'.join(part.columns)}"
        try:
            return self._planned(start, part, settings, point, "grid" if point else where)
        except RecipeError:
            # A mistake that is there without the grid too is not the grid's.
            self._planned(start, part, settings, {}, where)
            raise

    def _settings(self, start: _Start, part: _Part) -> dict[str, Any]:
        """What the recipe says for a run, the nearer above the farther."""
        common: list[Mapping[str, Any]] = [self.recipe.finetune, self.recipe.mode_settings.get(_FIELD[part.mode], {})]
        own: list[Mapping[str, Any]] = [start.model.settings]
        if part.mode == "single":
            # What is good for one task says nothing of a run that learns several.
            name = part.columns[0]
            common.append(self.recipe.task_settings.get(name, {}))
            own.append(start.model.task_settings.get(name, {}))
        return reduce(merged, [*common, *own], {})

    def _twins(self, start: _Start, joint: PlannedRun, point: Mapping[str, Any]) -> Iterator[PlannedRun]:
        """Each task of a joint run alone, as its single runs are but for their length."""
        if self.recipe.twins != "updates":
            return
        spec = joint.spec
        for name in spec.columns:
            alone = self._point(start, _Part("single", (name,)), point)
            check_twin(json.loads(spec.settings), json.loads(alone.spec.settings))
            partner = next(other for other in spec.columns if other != name) if spec.mode == "pair" else ""
            twin = replace(alone.spec, mode="twin", equal_to=joint.key, partner=partner, alone=alone.key)
            share = self.sizes[twin.task_digests[0]] / sum(self.sizes[digest] for digest in spec.task_digests)
            yield PlannedRun(twin, twin.key(self.digests[start.row]), joint.cost * share)

    def _planned(
        self, start: _Start, part: _Part, settings: Mapping[str, Any], point: Mapping[str, Any], where: str
    ) -> PlannedRun:
        tasks = [self.columns[name][part.fold or 0] for name in part.columns]
        protocols = {
            task.card.name: self.recipe.protocols[name]
            for name, task in zip(part.columns, tasks, strict=True)
            if name in self.recipe.protocols
        }
        others = {task.card.name for found in self.columns.values() for task in found} - {t.card.name for t in tasks}
        values = merged(without_turns(settings, others), {"protocols": protocols} if protocols else {})
        for name, value in point.items():
            values = merged(values, _nested(name, value))
        check_settings(values, where)
        if start.after:
            values.pop("reinitialise", None)  # it was the refinement's; here it would undo it
        if start.fraction < 1:
            values["fraction"] = start.fraction
        train = values.get("train", {})
        runtime = {name: value for name, value in train.items() if name in RUNTIME}
        kept = {name: value for name, value in train.items() if name not in RUNTIME}
        values = {name: value for name, value in values.items() if name != "train"} | ({"train": kept} if kept else {})
        digests = tuple(task.artifact.manifest.digest for task in tasks)
        spec = RunSpec(
            row=start.row,
            model=_absolute(start.model.model),
            columns=part.columns,
            tasks=tuple(task.artifact.path for task in tasks),
            task_digests=digests,
            seed=start.seed,
            split=self.recipe.split,
            settings=_canonical(with_whole_paths(json.loads(_canonical(values)))),
            point=_canonical(point),
            fraction=start.fraction,
            mode=part.mode,
            fold=part.fold,
            after=start.after,
            runtime=_canonical(runtime),
        )
        later = self._tested_later(part)
        spec = replace(spec, kept_out=tuple(artifact.path for artifact in later))
        digests_later = (artifact.manifest.digest for artifact in later)
        spec = replace(spec, inputs=(*self._inputs(spec, where), *digests_later))
        epochs = float(values.get("epochs", _USUAL_EPOCHS)) if _plan_is_number(values.get("epochs", 1)) else 1.0
        cost = epochs * start.fraction * sum(self.sizes[digest] for digest in digests)
        return PlannedRun(spec, spec.key(self.digests[start.row]), cost)

    def _tested_later(self, part: _Part) -> list[Artifact]:
        """A model taught several tasks may be fine-tuned on any column: the dev and test of none may be in its training."""
        if part.mode not in ("refine", "together"):
            return []
        return [task.artifact for name, found in self.columns.items() if name not in part.columns for task in found]

    def _inputs(self, spec: RunSpec, where: str) -> tuple[str, ...]:
        """Let the runner check the settings; runs that differ in seed alone need it once."""
        mark = json.dumps([spec.settings, spec.runtime, spec.columns])
        if mark not in self.checked:
            self.checked[mark] = self.runner.check(spec, where)
        return self.checked[mark]


def _nested(name: str, value: Any) -> dict[str, Any]:
    for part in reversed(name.split(".")):
        value = {part: value}
    return dict(value)


def _canonical(value: Mapping[str, Any]) -> str:
    def plain(item: Any) -> Any:
        return item.resolved() if isinstance(item, Recipe) else str(item)

    return json.dumps(value, sort_keys=True, default=plain)


def _absolute(model: str) -> str:
    return os.path.abspath(Path(model).expanduser()) if Path(model).expanduser().is_dir() else model


def _plan_is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
