"""A new task for a bundle that exists, without harm to the heads it has.

Two ways. Without `rehearse` nothing of the old bundle learns, neither its encoder nor its heads: what they say stays the same to the
last bit, and only the new heads are taught. With `rehearse` the old tasks are mixed in, every one of them, and the encoder and all
heads learn on together.
"""

from __future__ import annotations

from collections.abc import Sequence

from osler.bundle.spec import BundleSpec, HeadSpec
from osler.core.errors import RecipeError
from osler.nn.multihead import MultiHeadModel
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.joint import taught
from osler.tasks.card import TaskCard


def check_added(
    recipe: FinetuneRecipe, old: BundleSpec, new: Sequence[TaskCard], rehearsed: Sequence[TaskCard]
) -> None:
    """Refuse what would change the old heads unawares."""
    known = taught(old)
    for card in new:
        if card.name in known or card.name in old.heads:
            raise RecipeError(
                f"the bundle has a head for {card.name} already",
                where=recipe.add_to,
                fix="To teach it again, give its task with --rehearse",
            )
    for head in recipe.joint:
        if head in old.heads:
            raise RecipeError(
                f"the bundle has a head {head!r} already", where=recipe.add_to, fix="Give the joint head another name"
            )
    for name in ("max_length", "overlap"):
        asked, has = getattr(recipe, name), getattr(old, name)
        if name in recipe.model_fields_set and asked != has:
            raise RecipeError(
                f"{name} is {asked}, the bundle's heads share windows with {name} {has}",
                where=recipe.add_to,
                fix=f"Leave {name} out",
            )
    if not recipe.rehearse:
        _check_frozen(recipe)
        return
    given = {card.name: card for card in rehearsed}
    for name, card in given.items():
        if name not in known:
            raise RecipeError(
                f"the bundle was not taught {name}, so it cannot rehearse it",
                where=recipe.add_to,
                fix=f"Give it as a new task. Tasks of the bundle: {', '.join(known)}",
            )
        _same_labels(name, card, old.heads[known[name].head])
    missing = [name for name in known if name not in given]
    if missing:
        raise RecipeError(
            f"the encoder learns on, and the head of {missing[0]} would fall behind it",
            where=recipe.add_to,
            fix="Give the task of every head with --rehearse, or none to keep encoder and heads as they are",
        )


def _check_frozen(recipe: FinetuneRecipe) -> None:
    asked = {"lora": recipe.lora is not None, "mlm": recipe.mlm is not None}
    asked |= {"reinitialise": recipe.reinitialise, "freeze": recipe.freeze not in ("nothing", "encoder")}
    for name, given in asked.items():
        if given:
            raise RecipeError(
                f"{name} is for an encoder that learns, and without rehearsal the bundle's does not",
                where=recipe.add_to,
                fix=f"Leave {name} out, or give the old tasks with --rehearse",
            )


def _same_labels(name: str, card: TaskCard, head: HeadSpec) -> None:
    # A joint head has the labels of its other tasks too.
    fits = set(card.labels) <= set(head.card.labels) if head.members else card.labels == head.card.labels
    if card.kind is not head.card.kind or not fits:
        raise RecipeError(
            f"the task {name} is not the one its head was taught: kind or labels differ",
            fix="Give the task as it was when the bundle was made",
        )


def extended(old: BundleSpec, heads: dict[str, HeadSpec]) -> BundleSpec:
    """The old heads as they are, then the new ones."""
    return old.model_copy(update={"heads": {**old.heads, **heads}})


def hold_still(model: MultiHeadModel, heads: Sequence[str]) -> None:
    """Let nothing learn but these heads."""
    model.requires_grad_(False)
    for name in heads:
        model.head(name).requires_grad_(True)
