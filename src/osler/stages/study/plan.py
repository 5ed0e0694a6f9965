"""Expand a recipe into runs: models x columns x grid points x seeds x fractions."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Literal, NamedTuple

from osler.artifacts.run import Mode, RunSettings, RunSpec, absolute_paths
from osler.artifacts.task_folder import TaskFolder
from osler.core.config import merged
from osler.core.console import count_text
from osler.core.errors import OslerError, RecipeError
from osler.stages.study import runner
from osler.stages.study.across import Across, across_tasks
from osler.stages.study.checks import (
    RUNTIME,
    check_decoding,
    check_grid,
    check_matched,
    check_modes,
    check_names,
    check_published,
    check_settings,
    check_split,
)
from osler.stages.study.grid import is_number, nested, points
from osler.stages.study.recipe import Refinement, StudyModel, StudyRecipe, without_tasks
from osler.tasks.card import BY_TOKEN

_DEFAULT_EPOCHS = 10
_RECIPE_MODE: dict[Mode, Literal["single", "together", "pairs"]] = {
    "single": "single",
    "together": "together",
    "pair": "pairs",
}


@dataclass(frozen=True)
class PlannedRun:
    """A run with its key and its expected cost in arbitrary units."""

    spec: RunSpec
    key: str
    cost: float


@dataclass(frozen=True)
class StudyPlan:
    """Every run of a study; refinements come before the runs that start from them."""

    runs: tuple[PlannedRun, ...]
    store: Path
    columns: dict[str, tuple[TaskFolder, ...]]
    """Task of each column, or the tasks of its folds."""
    digests: dict[str, str]
    """Model digest of each row."""
    across: Across

    def folder(self, key: str) -> Path:
        return self.store / key


def expand(recipe: StudyRecipe, out: Path) -> StudyPlan:
    """Plan all runs of a study and check every setting up front."""
    columns, digests = _open(recipe)
    check_names(recipe, columns)
    check_published(recipe)
    check_grid(recipe, columns)
    check_modes(recipe, columns)
    check_split(recipe, columns)
    across = across_tasks(recipe.across, recipe.protocols, columns)
    runs = tuple(_Expansion(recipe, columns, digests).runs())
    check_decoding(recipe, columns, [run.spec for run in runs])
    return StudyPlan(runs, Path(os.path.abspath(recipe.store or runs_folder(out))), columns, digests, across)


def runs_folder(out: Path) -> Path:
    """Return the folder next to --out that holds a study's recipe and, without a store, its runs."""
    return out.with_name(f"{out.name}.runs")


def absolute_model(model: str) -> str:
    """Return a model folder as an absolute path, and a hub name unchanged."""
    folder = Path(model).expanduser()
    return os.path.abspath(folder) if folder.is_dir() else model


def _open(recipe: StudyRecipe) -> tuple[dict[str, tuple[TaskFolder, ...]], dict[str, str]]:
    """Return the tasks of every column in recipe order, one or one per fold, and the model digest of each row.

    A single error names all tasks and models that cannot be opened, so the user can find them in one go.
    """
    columns: dict[str, tuple[TaskFolder, ...]] = {}
    digests: dict[str, str] = {}
    missing: list[_Missing] = []
    for path in recipe.tasks:
        try:
            task = _task(path)
        except OslerError as error:
            missing.append(_Missing("task", path.name, str(path), error))
            continue
        if task.card.name in columns:
            raise RecipeError(f"tasks: the column {task.card.name!r} is given twice", fix="List each task once")
        columns[task.card.name] = (task,)
    for name, paths in recipe.folds.items():
        if name in columns:
            raise RecipeError(f"folds: the column {name!r} is also among the tasks", fix="List it once")
        try:
            columns[name] = tuple(map(_task, paths))
        except OslerError as error:
            missing.append(_Missing("task", name, f"{paths[0]} to {paths[-1].name}", error))
    for row, model in recipe.models.items():
        try:
            digests[row] = runner.identify(model.model)
        except OslerError as error:
            missing.append(_Missing("model", row, f"{model.model} ({row})", error))
    if missing:
        raise _not_opened(missing, others=bool(digests))
    return columns, digests


def _task(path: Path) -> TaskFolder:
    return TaskFolder.open(Path(os.path.abspath(path)))


class _Missing(NamedTuple):
    """A task or model that cannot be opened."""

    kind: Literal["task", "model"]
    name: str
    place: str
    error: OslerError


def _not_opened(missing: Sequence[_Missing], *, others: bool) -> RecipeError:
    """Build one error for everything that is missing; `others` says whether any model was found."""
    if len(missing) == 1:
        [(kind, name, _, error)] = missing
        subject = f"models.{name}.model: " if kind == "model" else ""
        return RecipeError(f"{subject}{error.problem}", where=error.where, fix=error.fix)
    places: dict[tuple[str, str], list[str]] = {}
    for kind, _, place, error in missing:
        places.setdefault((kind, error.problem), []).append(place)
    listed = "; ".join(
        f"{count_text(len(found), kind)}, {problem}: {', '.join(found)}" for (kind, problem), found in places.items()
    )
    kinds = {item.kind for item in missing}
    fixes = ["Prepare the tasks: osler tasks prepare --all --from DATA --out tasks"] if "task" in kinds else []
    fixes += ["Say where each model is: --set models.NAME.model=FOLDER"] if "model" in kinds else []
    gone = [item.name for item in missing if item.kind == "task" or others]
    if gone:
        fixes.append(f"Or leave out what you do not have: --set 'without={json.dumps(gone)}'")
    return RecipeError(f"this study is not complete: {listed}", fix=". ".join(fixes))


@dataclass(frozen=True)
class _Start:
    """Common start of all runs of a row, fraction and seed."""

    row: str
    model: StudyModel
    fraction: float
    seed: int
    after: str | None = None
    pooled: bool = False
    """Whether the refinement that runs start from has heads with a pooler."""


@dataclass(frozen=True)
class _Part:
    """Columns and fold that a run trains on."""

    mode: Mode
    columns: tuple[str, ...]
    fold: int | None = None


class _Expansion:
    def __init__(
        self, recipe: StudyRecipe, columns: Mapping[str, tuple[TaskFolder, ...]], digests: Mapping[str, str]
    ) -> None:
        self.recipe = recipe
        self.columns = columns
        self.digests = digests
        self.sizes = {
            task.artifact.manifest.digest: task.uncompressed_bytes("train") or 1
            for tasks in columns.values()
            for task in tasks
        }
        self.checked: dict[tuple[str, RunSettings, RunSettings, tuple[str, ...]], tuple[str, ...]] = {}

    def runs(self) -> Iterator[PlannedRun]:
        recipe = self.recipe
        for (row, model), fraction, seed in itertools.product(
            recipe.models.items(), (1.0, *recipe.fractions), recipe.seeds
        ):
            start = _Start(row, model, fraction, seed)
            if model.refine:
                refinement = self._refinement(start, model.refine)
                yield refinement
                start = replace(
                    start, after=refinement.key, pooled=self._pooled(refinement.spec.settings, refinement.spec.columns)
                )
            for part, point in itertools.product(self._parts(), points(recipe.grid)):
                planned = self._run(start, part, point)
                yield planned
                if recipe.twins == "updates" and part.mode in ("together", "pair") and fraction == 1.0:
                    yield from self._single_task_baselines(start, planned, point)

    def _parts(self) -> Iterator[_Part]:
        """Yield the columns of each run of a row, seed and fraction."""
        groups = [self.recipe.groups[name] for name in self.recipe.within] or [tuple(self.columns)]
        for mode in self.recipe.modes:
            if mode == "single":
                for name, tasks in self.columns.items():
                    for number in range(len(tasks)):
                        yield _Part("single", (name,), number if len(tasks) > 1 else None)
            elif mode == "together":
                yield from (_Part("together", names) for names in groups)
            else:
                yield from (_Part("pair", pair) for names in groups for pair in itertools.combinations(names, 2))

    def _refinement(self, start: _Start, refine: Refinement) -> PlannedRun:
        settings = reduce(merged, (self.recipe.finetune, start.model.settings, refine.settings))
        where = f"settings of the refinement of {start.row}"
        planned = self._planned(start, _Part("refine", refine.tasks), settings, {}, where)
        return replace(planned, spec=replace(planned.spec, only_start=not refine.score))

    def _pooled(self, settings: Mapping[str, Any], columns: Sequence[str]) -> bool:
        """Whether a run has heads with a pooler."""
        cards = [self.columns[name][0].card for name in columns]
        return settings.get("head") == "pooler" and any(card.kind not in BY_TOKEN for card in cards)

    def _run(self, start: _Start, part: _Part, point: Mapping[str, Any]) -> PlannedRun:
        # Settings of one task do not apply to a joint run.
        task = part.columns[0] if part.mode == "single" else ""
        layers = [
            self.recipe.finetune,
            self.recipe.mode_settings.get(_RECIPE_MODE[part.mode], {}),
            self.recipe.task_settings.get(task, {}),
            start.model.settings,
            start.model.task_settings.get(task, {}),
        ]
        settings = reduce(merged, layers)
        where = f"settings of {start.row} on {'+'.join(part.columns)}"
        try:
            return self._planned(start, part, settings, point, "grid" if point else where)
        except RecipeError:
            # Blame the grid only if the settings are valid without it.
            self._planned(start, part, settings, {}, where)
            raise

    def _single_task_baselines(
        self, start: _Start, joint: PlannedRun, point: Mapping[str, Any]
    ) -> Iterator[PlannedRun]:
        """Yield the baseline of each task of a joint run: its single-task run with another length."""
        spec = joint.spec
        for name in spec.columns:
            alone = self._run(start, _Part("single", (name,)), point)
            check_matched(spec.settings, alone.spec.settings)
            partner = next(other for other in spec.columns if other != name) if spec.mode == "pair" else ""
            matched = replace(alone.spec, mode="twin", equal_to=joint.key, partner=partner, alone=alone.key)
            share = self.sizes[matched.task_digests[0]] / sum(self.sizes[digest] for digest in spec.task_digests)
            yield PlannedRun(matched, matched.key(self.digests[start.row]), joint.cost * share)

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
        values = merged(without_tasks(settings, others), {"protocols": protocols} if protocols else {})
        for name, value in point.items():
            values = merged(values, nested(name, value))
        check_settings(values, where)
        if start.after:
            values.pop("reinitialise", None)  # applied to the refinement; here it would discard the refined weights
            if self._pooled(values, part.columns) and not start.pooled:
                raise RecipeError(
                    f'head = "pooler", but the refinement of {start.row} leaves no pooler to start from',
                    where=where,
                    fix='Set head = "pooler" for the refinement too, with a task of texts, pairs or relations in it; '
                    'or set head = "mlp" or "linear" here',
                )
        if start.fraction < 1:
            values["fraction"] = start.fraction
        train = values.pop("train", {})
        kept = {name: value for name, value in train.items() if name not in RUNTIME}
        if kept:
            values["train"] = kept
        # Later runs may start from a jointly trained model, so keep the dev and test documents of other columns out.
        later = [
            task.artifact
            for name, found in self.columns.items()
            for task in found
            if part.mode in ("refine", "together") and name not in part.columns
        ]
        spec = RunSpec(
            row=start.row,
            model=absolute_model(start.model.model),
            columns=part.columns,
            tasks=tuple(task.artifact.path for task in tasks),
            task_digests=tuple(task.artifact.manifest.digest for task in tasks),
            seed=start.seed,
            split=self.recipe.split,
            settings=RunSettings(absolute_paths(RunSettings(values))),
            point=RunSettings(point),
            fraction=start.fraction,
            mode=part.mode,
            fold=part.fold,
            after=start.after,
            kept_out=tuple(artifact.path for artifact in later),
            runtime=RunSettings({name: value for name, value in train.items() if name in RUNTIME}),
        )
        # Runs that differ only in their seed are checked once.
        mark = (spec.model, spec.settings, spec.runtime, spec.columns)
        if mark not in self.checked:
            self.checked[mark] = runner.check(spec, where)
        spec = replace(spec, inputs=(*self.checked[mark], *(artifact.manifest.digest for artifact in later)))
        epochs = values.get("epochs", _DEFAULT_EPOCHS)
        cost = float(epochs if is_number(epochs) else 1) * start.fraction
        cost *= sum(self.sizes[digest] for digest in spec.task_digests)
        return PlannedRun(spec, spec.key(self.digests[start.row]), cost)
