"""From a recipe to runs: models x columns x grid points x seeds x fractions, each with its settings and its place in the store."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Literal

from osler.core.artifact import Artifact
from osler.core.config import Recipe
from osler.core.errors import RecipeError
from osler.stages.study.columns import columns_of, size
from osler.stages.study.config import Refinement, StudyModel, StudyRecipe
from osler.stages.study.engine import Runner
from osler.stages.study.narrow import without_turns
from osler.stages.study.paths import with_whole_paths
from osler.stages.study.plan_checks import (
    RUNTIME,
    check_grid,
    check_modes,
    check_names,
    check_readings,
    check_settings,
    check_twin,
)
from osler.stages.study.spec import Mode, RunSpec
from osler.tasks.data import TaskData

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
class Plan:
    """Every run of a study, refinements before the runs that start from them."""

    runs: tuple[PlannedRun, ...]
    store: Path
    columns: dict[str, tuple[TaskData, ...]]
    """The task of each column, or the tasks of its folds."""
    digests: dict[str, str]
    """Of each row's model."""

    def folder(self, key: str) -> Path:
        """Where a run is kept."""
        return self.store / key


def expand(recipe: StudyRecipe, out: Path, runner: Runner) -> Plan:
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
    return Plan(runs, store, columns, digests)


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
        columns: Mapping[str, Sequence[TaskData]],
        digests: Mapping[str, str],
        runner: Runner,
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
        epochs = float(values.get("epochs", _USUAL_EPOCHS)) if _is_number(values.get("epochs", 1)) else 1.0
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


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
