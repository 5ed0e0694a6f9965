"""Validate a study recipe."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from osler.artifacts.run import RunSpec
from osler.artifacts.task_folder import TaskFolder
from osler.core.errors import RecipeError, nearest
from osler.stages.study.recipe import StudyRecipe
from osler.tasks.card import Kind
from osler.tasks.instances.base import HeadOptions
from osler.train.config import TrainConfig

RUNTIME = frozenset(
    name
    for name, field in TrainConfig.model_fields.items()
    if isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get("runtime")
)
"""Training settings that change no result."""


def check_names(recipe: StudyRecipe, columns: Mapping[str, Sequence[TaskFolder]]) -> None:
    """Every name of a column or row must be one."""
    if recipe.baseline is not None and recipe.baseline not in recipe.models:
        raise RecipeError(
            f"the baseline {recipe.baseline!r} is not among the models", fix=f"Models: {', '.join(recipe.models)}"
        )
    named = [("task_settings", name) for name in recipe.task_settings]
    named += [("protocols", name) for name in recipe.protocols]
    named += [(f"groups.{group}", name) for group, names in recipe.groups.items() for name in names]
    for row, model in recipe.models.items():
        named += [(f"models.{row}.task_settings", name) for name in model.task_settings]
        named += [(f"models.{row}.refine.tasks", name) for name in (model.refine.tasks if model.refine else ())]
    for field, name in named:
        if name not in columns:
            close = nearest(name, columns)
            fix = f"Did you mean {close!r}?" if close else f"Columns: {', '.join(columns)}"
            raise RecipeError(f"{field} names the column {name!r}, which the study has not", fix=fix)
        if field.endswith("refine.tasks") and len(columns[name]) > 1:
            raise RecipeError(
                f"{field}: {name!r} is cross-validated, so a refinement on it would have read the tests of other folds",
                fix="Refine on tasks with a test split of their own",
            )


def check_modes(recipe: StudyRecipe, columns: Mapping[str, Sequence[TaskFolder]]) -> None:
    """Runs of several tasks need several tasks, each with one training and one test part."""
    several = [mode for mode in recipe.modes if mode != "single"]
    if several and recipe.folds:
        raise RecipeError(
            f"modes: {several[0]} needs tasks with one test split, and {next(iter(recipe.folds))!r} is cross-validated",
            fix="Give cross-validated columns a study of their own",
        )
    if several and len(columns) < 2:
        raise RecipeError(f"modes: {several[0]} needs at least two columns", fix="Add a task")


def check_grid(recipe: StudyRecipe, columns: Mapping[str, Sequence[TaskFolder]]) -> None:
    """A grid tries what changes a result, and leaves dev to choose by."""
    for name in recipe.grid:
        section, _, last = name.rpartition(".")
        if name == "train.seed":
            raise RecipeError("grid: 'train.seed' is no setting to choose", fix="Give seeds")
        if section == "train" and last in RUNTIME:
            raise RecipeError(f"grid: {name!r} changes no result", fix="Leave it out")
    if not recipe.grid and recipe.choose == "settings":
        return
    for name, tasks in columns.items():
        for task in tasks:
            protocol = recipe.protocols.get(name)
            if "dev" in task.card.protocol_named(protocol).train_on:
                raise RecipeError(
                    f"{'grid' if recipe.grid else 'choose'}: {task.card.protocol_id(protocol)} trains on dev, "
                    "so nothing is left to choose by",
                    fix="Choose a protocol that keeps dev apart, or leave the choice out",
                )


def check_settings(values: Mapping[str, Any], where: str) -> None:
    """Fine-tuning has settings that a study gives every run itself; what a recipe says of them would be passed over in silence."""
    for name in ("model", "tasks", "keep_out", "add_to", "rehearse"):
        if name in values:
            raise RecipeError(
                f"{name!r} is not for the settings of a study's runs",
                where=where,
                fix="Name models as models.NAME.model and tasks as tasks, at the top of the recipe",
            )
    train = values.get("train")
    if isinstance(train, Mapping) and "seed" in train:
        raise RecipeError("'train.seed' is not for the settings of a study's runs", where=where, fix="Give seeds")


def check_readings(recipe: StudyRecipe, columns: Mapping[str, Sequence[TaskFolder]], runs: Sequence[RunSpec]) -> None:
    """A column whose heads are decoded in two ways would hold numbers that cannot be compared; the report refuses it, hours later."""
    seen: dict[str, str] = {}
    for spec in runs:
        settings = json.loads(spec.settings)
        chosen = {name: settings[name] for name in ("tagger", "decoding") if name in settings}
        options = HeadOptions.model_validate(chosen)
        for name in () if spec.only_start else spec.columns:
            card = columns[name][0].card
            protocol = card.protocol_named(recipe.protocols.get(name))
            read = options.read_otherwise(protocol.decoding) if card.kind is Kind.TAGGING else ""
            if seen.setdefault(name, read) != read:
                printed = [card.protocol_id(recipe.protocols.get(name), way) for way in (seen[name], read)]
                raise RecipeError(
                    f"decoding: {name} would be scored under {printed[0]} and under {printed[1]}",
                    fix="Use one decoding for every run of a study",
                )


def check_twin(joint: Mapping[str, Any], alone: Mapping[str, Any]) -> None:
    """Equal updates need runs whose updates can be counted by task, and a twin that learns its task and nothing else."""
    if any(settings.get("accumulate", 1) != 1 for settings in (joint, alone)):
        raise RecipeError(
            "twins: with accumulate an update holds batches of several tasks, so the updates of one task cannot be counted",
            fix="Leave accumulate out, or say twins = 'epochs'",
        )
    if alone.get("mlm"):
        raise RecipeError(
            "twins: mlm is among the settings of runs on one task, so not all of their updates are of that task",
            fix="Move it to mode_settings.together or mode_settings.pairs",
        )
