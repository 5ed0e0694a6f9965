"""What can be wrong with a study's recipe as a whole: names that are none, a grid that nothing can choose by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from osler.core.errors import RecipeError, nearest
from osler.stages.study.config import StudyRecipe
from osler.tasks.data import TaskData
from osler.train.config import TrainConfig

RUNTIME = frozenset(
    name
    for name, field in TrainConfig.model_fields.items()
    if isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get("runtime")
)
"""Training settings that change no result."""


def check_names(recipe: StudyRecipe, columns: Mapping[str, Sequence[TaskData]]) -> None:
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


def check_modes(recipe: StudyRecipe, columns: Mapping[str, Sequence[TaskData]]) -> None:
    """Runs of several tasks need several tasks, each with one training and one test part."""
    several = [mode for mode in recipe.modes if mode != "single"]
    if several and recipe.folds:
        raise RecipeError(
            f"modes: {several[0]} needs tasks with one test split, and {next(iter(recipe.folds))!r} is cross-validated",
            fix="Give cross-validated columns a study of their own",
        )
    if several and len(columns) < 2:
        raise RecipeError(f"modes: {several[0]} needs at least two columns", fix="Add a task")


def check_grid(recipe: StudyRecipe, columns: Mapping[str, Sequence[TaskData]]) -> None:
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
