"""Validate a study recipe against its tasks, before the first run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from osler.artifacts.run import RunSpec
from osler.artifacts.task_folder import TaskFolder
from osler.core.errors import RecipeError, alternatives
from osler.stages.study.recipe import StudyRecipe
from osler.tasks.card import Kind
from osler.tasks.instances.base import HeadOptions
from osler.tasks.published import load_published, rows_of_models
from osler.train.config import TrainConfig

Columns = Mapping[str, Sequence[TaskFolder]]
RUNTIME = frozenset(
    name
    for name, field in TrainConfig.model_fields.items()
    if isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get("runtime")
)
"""Training settings that do not affect results."""


def check_names(recipe: StudyRecipe, columns: Columns) -> None:
    """Reject names of models and columns that the study does not have."""
    if recipe.baseline is not None and recipe.baseline not in recipe.models:
        raise RecipeError(
            f"the baseline {recipe.baseline!r} is not among the models", fix=f"Models: {', '.join(recipe.models)}"
        )
    named = [("task_settings", name) for name in recipe.task_settings]
    named += [("protocols", name) for name in recipe.protocols]
    named += [(f"groups.{group}", name) for group, names in recipe.groups.items() for name in names]
    for trained_on, others in recipe.across.items():
        named += [("across", trained_on), *((f"across.{trained_on}", name) for name in others)]
    for row, model in recipe.models.items():
        named += [(f"models.{row}.task_settings", name) for name in model.task_settings]
        named += [(f"models.{row}.refine.tasks", name) for name in (model.refine.tasks if model.refine else ())]
    for field, name in named:
        if name not in columns:
            fix = alternatives(name, columns, "Columns")
            raise RecipeError(f"{field} names the column {name!r}, which the study does not have", fix=fix)
        if field.endswith("refine.tasks") and len(columns[name]) > 1:
            raise RecipeError(
                f"{field}: {name!r} is cross-validated, so a refinement would train on test documents of other folds",
                fix="Refine on tasks with a single test split",
            )


def check_published(recipe: StudyRecipe) -> None:
    """Reject an unknown paper, and rows that it does not have."""
    named = {row: model.published for row, model in recipe.models.items()}
    if recipe.published is not None:
        rows_of_models(load_published(recipe.published), named)
    for row in (row for row, rows in named.items() if rows and recipe.published is None):
        raise RecipeError(
            f"models.{row}.published names a row, but the study names no paper",
            fix="Name the paper at the top of the recipe, or with --set published=lewis2020",
        )


def check_split(recipe: StudyRecipe, columns: Columns) -> None:
    """Reject a split that a task lacks, before training rather than at scoring."""
    for name, tasks in columns.items():
        for task in tasks:
            if recipe.split not in task.splits:
                raise RecipeError(
                    f"split: the task {name} has no split {recipe.split!r}",
                    where=task.artifact.path,
                    fix=alternatives(recipe.split, task.splits, "Splits"),
                )


def check_modes(recipe: StudyRecipe, columns: Columns) -> None:
    """Check that joint runs have at least two tasks, each with a single test split."""
    joint = [mode for mode in recipe.modes if mode != "single"]
    if joint and recipe.folds:
        raise RecipeError(
            f"modes: {joint[0]} needs tasks with one test split, but {next(iter(recipe.folds))!r} is cross-validated",
            fix="Put cross-validated columns into a study of their own",
        )
    if joint and len(columns) < 2:
        raise RecipeError(f"modes: {joint[0]} needs at least two columns", fix="Add a task")


def check_grid(recipe: StudyRecipe, columns: Columns) -> None:
    """Check that a grid varies settings that affect results, and has a dev score to choose by."""
    for name in recipe.grid:
        section, _, last = name.rpartition(".")
        if name == "train.seed":
            raise RecipeError("grid: 'train.seed' is not a setting to choose", fix="List seeds under `seeds`")
        if section == "train" and last in RUNTIME:
            raise RecipeError(f"grid: {name!r} does not affect results", fix="Remove it from the grid")
    if not recipe.grid and recipe.choose == "settings":
        return
    for name, tasks in columns.items():
        for task in tasks:
            protocol = recipe.protocols.get(name)
            if "dev" in task.card.protocol_named(protocol).train_on:
                raise RecipeError(
                    f"{'grid' if recipe.grid else 'choose'}: {task.card.protocol_id(protocol)} trains on dev, "
                    "so there is no dev score to choose by",
                    fix="Use a protocol that does not train on dev, or remove the grid",
                )


def check_settings(values: Mapping[str, Any], where: str) -> None:
    """Reject fine-tuning settings that the study sets itself, because they would be ignored."""
    for name in ("model", "tasks", "keep_out", "add_to", "rehearse"):
        if name in values:
            raise RecipeError(
                f"{name!r} cannot be set for the runs of a study",
                where=where,
                fix="Name models as models.NAME.model and tasks as `tasks`, at the top of the recipe",
            )
    train = values.get("train")
    if isinstance(train, Mapping) and "seed" in train:
        raise RecipeError(
            "'train.seed' cannot be set for the runs of a study", where=where, fix="List seeds under `seeds`"
        )


def check_decoding(recipe: StudyRecipe, columns: Columns, runs: Sequence[RunSpec]) -> None:
    """Reject columns whose runs decode differently, because their scores would not be comparable."""
    seen: dict[str, str] = {}
    for spec in runs:
        chosen = {name: spec.settings[name] for name in ("tagger", "decoding") if name in spec.settings}
        options = HeadOptions.model_validate(chosen)
        others = recipe.across.get(spec.columns[0], ()) if spec.mode == "single" else ()
        for name in () if spec.only_start else (*spec.columns, *others):
            card = columns[name][0].card
            protocol = card.protocol_named(recipe.protocols.get(name))
            suffix = options.other_decoding(protocol.decoding) if card.kind is Kind.TAGGING else ""
            if seen.setdefault(name, suffix) != suffix:
                printed = [card.protocol_id(recipe.protocols.get(name), other) for other in (seen[name], suffix)]
                raise RecipeError(
                    f"decoding: {name} would be scored under {printed[0]} and under {printed[1]}",
                    fix="Use one decoding for every run of a study",
                )


def check_matched(joint: Mapping[str, Any], alone: Mapping[str, Any]) -> None:
    """Check that steps can be counted by task, as single-task baselines of matched length need."""
    if any(settings.get("accumulate", 1) != 1 for settings in (joint, alone)):
        raise RecipeError(
            "twins: with accumulate a step holds batches of several tasks, so the steps of one task cannot be counted",
            fix="Remove accumulate, or set twins = 'epochs'",
        )
    if alone.get("mlm"):
        raise RecipeError(
            "twins: mlm is among the settings of single-task runs, so not all of their steps train the task",
            fix="Move it to mode_settings.together or mode_settings.pairs",
        )
