"""What a recipe and its tasks must agree on, looked at before any work is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from osler.bundle.spec import BundleSpec
from osler.core.errors import RecipeError, nearest
from osler.stages.finetune.adding import check_added
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.joint import check_joint
from osler.stages.finetune.mlm_task import NAME as MLM
from osler.stages.finetune.teacher import check_teacher
from osler.tasks.card import Kind
from osler.tasks.data import TaskData


def check(recipe: FinetuneRecipe, tasks: Sequence[TaskData], rehearsed: Sequence[TaskData] = ()) -> None:
    """Refuse, with one clear sentence, what cannot be taught as asked."""
    names = [task.card.name for task in [*rehearsed, *tasks]]
    for name in names:
        if names.count(name) > 1:
            raise RecipeError(f"the task {name} is given twice", fix="Give each task once")
    new = [task.card.name for task in tasks]
    for name in recipe.protocols:
        if name not in new:
            raise RecipeError(
                f"protocols names the task {name!r}, which is not among the tasks", fix=f"Tasks: {', '.join(new)}"
            )
    _check_mixing(recipe, names)
    chained = [task.card.name for task in tasks if recipe.tagger == "crf" and task.card.kind is Kind.TAGGING]
    if recipe.rehearse and recipe.add_to:
        old = BundleSpec.load(recipe.add_to)
        chained += [name for name, head in old.heads.items() if head.options.tagger == "crf"]
    if chained and recipe.class_weights != "none":
        raise RecipeError(
            f"the words of a chain cannot be weighed by their class, and {chained[0]} is tagged by one",
            fix='Leave tagger = "crf" or class_weights out',
        )
    if recipe.teacher:
        if chained:
            raise RecipeError(
                f"a chain learns from no soft labels, and {chained[0]} is tagged by one",
                fix='Leave tagger = "crf" or the teacher out',
            )
        check_teacher(recipe.teacher, names)
    for task in tasks:
        if "test" in task.card.protocol_named(recipe.protocols.get(task.card.name)).train_on:
            raise RecipeError(
                f"protocol {task.card.protocol_id(recipe.protocols.get(task.card.name))} trains on test",
                fix="Choose a protocol that leaves the test split alone",
            )
    check_joint(recipe, [task.card for task in tasks])
    if recipe.add_to:
        check_added(
            recipe,
            BundleSpec.load(recipe.add_to),
            [task.card for task in tasks],
            [task.card for task in rehearsed],
        )


def _check_mixing(recipe: FinetuneRecipe, names: Sequence[str]) -> None:
    if recipe.mlm and MLM in names:
        raise RecipeError(f"a task is called {MLM!r}, as is the raw text in the mix", fix="Rename the task's card")
    sections: dict[str, Mapping[str, float]] = {
        "loss_weights": recipe.mixing.loss_weights,
        "batch_sizes": recipe.mixing.batch_sizes,
    }
    for section, given in sections.items():
        for name in given:
            if name == MLM and recipe.mlm and section == "loss_weights":
                raise RecipeError(
                    "mixing.loss_weights has a weight for the raw text, which has its own", fix="Set mlm.weight"
                )
            if name not in names and not (name == MLM and recipe.mlm):
                close = nearest(name, names)
                hint = f"Did you mean {close!r}? " if close else ""
                raise RecipeError(
                    f"mixing.{section} names the task {name!r}, which is not among the tasks",
                    fix=f"{hint}Tasks: {', '.join(names)}",
                )
