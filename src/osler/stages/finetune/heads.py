"""Which heads a recipe trains: joint heads, heads added to a bundle, and what recipe and tasks must agree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from osler.artifacts.bundle import BundleHead, BundleSpec
from osler.artifacts.task_folder import TaskFolder
from osler.core.errors import RecipeError, nearest
from osler.nn.multihead import MultiHeadModel
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.mlm_task import NAME as MLM
from osler.stages.finetune.teacher import check_teacher
from osler.tasks.card import Kind, Protocol, TaskCard

# What of a protocol decides the tags of a head, and how they are read.
_OF_THE_HEAD = ("scheme", "subwords", "decoding", "repair")


def check_joint(recipe: FinetuneRecipe, cards: Sequence[TaskCard]) -> None:
    """Refuse a joint head that cannot be made of these tasks."""
    by_name = {card.name: card for card in cards}
    if recipe.joint and recipe.tagger == "crf":
        raise RecipeError(
            "a joint head of partially annotated tasks cannot be a chain: what one of them leaves open has no one path",
            fix="Leave tagger = 'crf' out",
        )
    if recipe.joint and recipe.teacher:
        raise RecipeError(
            "a teacher has a head for each task, not one for several", fix="Leave teacher or joint out of the recipe"
        )
    seen: dict[str, str] = {}
    for head, members in recipe.joint.items():
        if head in by_name:
            raise RecipeError(f"the joint head {head!r} is named like a task", fix="Give it a name of its own")
        for name in members:
            if name not in by_name:
                close = nearest(name, by_name)
                hint = f"Did you mean {close!r}? " if close else ""
                raise RecipeError(
                    f"joint.{head} names the task {name!r}, which is not among the tasks",
                    fix=f"{hint}Tasks: {', '.join(by_name)}",
                )
            if name in seen:
                raise RecipeError(f"the task {name} is named twice in joint", fix="Let each task teach one head")
            seen[name] = head
            if by_name[name].kind is not Kind.TAGGING:
                raise RecipeError(
                    f"the task {name} of the joint head {head!r} is {by_name[name].kind}, not tagging",
                    fix="Only tasks that tag entities can share a head",
                )
        _one_scheme(recipe, head, [by_name[name] for name in members])


def _one_scheme(recipe: FinetuneRecipe, head: str, cards: Sequence[TaskCard]) -> None:
    """Refuse protocols that need another head, and two that bear one name: a number must say what it was made under."""
    first = cards[0]
    for card in cards:
        one, other = _protocol(recipe, first), _protocol(recipe, card)
        same_name = _protocol_name(recipe, first) == _protocol_name(recipe, card)
        keys = tuple(Protocol.model_fields) if same_name else _OF_THE_HEAD
        apart = [key for key in keys if getattr(one, key) != getattr(other, key)]
        if apart:
            raise RecipeError(
                f"the tasks {first.name} and {card.name} of the joint head {head!r} have protocols that differ in {apart[0]}",
                fix="Choose protocols of one scheme for them with protocols.TASK",
            )


def head_specs(recipe: FinetuneRecipe, cards: Sequence[TaskCard]) -> dict[str, BundleHead]:
    """The heads these tasks need: one each, and one for those that share it, in the order of the tasks."""
    by_name = {card.name: card for card in cards}
    owner = {name: head for head, members in recipe.joint.items() for name in members}
    heads: dict[str, BundleHead] = {}
    for card in cards:
        head = owner.get(card.name, card.name)
        if head in heads:
            continue
        if head == card.name:
            heads[head] = BundleHead(card=card, protocol=_protocol_name(recipe, card), options=recipe.head_options)
        else:
            heads[head] = _joint_spec(recipe, head, [by_name[name] for name in recipe.joint[head]])
    return heads


def _joint_spec(recipe: FinetuneRecipe, head: str, members: Sequence[TaskCard]) -> BundleHead:
    first = members[0]
    name = _protocol_name(recipe, first)
    languages = list(dict.fromkeys(card.language for card in members))
    card = first.model_copy(
        update={
            "name": head,
            "title": "; ".join(card.title for card in members),
            "labels": tuple(dict.fromkeys(label for card in members for label in card.labels)),
            "language": languages[0] if len(languages) == 1 else "mul",
            "licence": "; ".join(dict.fromkeys(card.licence for card in members)),
            "citation": "\n".join(dict.fromkeys(card.citation for card in members if card.citation)),
            "phi": first.phi if all(card.phi == first.phi for card in members) else None,
            # What is known of the files of one corpus does not hold for the others.
            "label_map": {},
            "discover_labels": False,
            "folds": 0,
            "fold": None,
            "counts": {},
            "known_problems": {},
            "tolerated": (),
            "notes": (),
            "paper": None,
            "access": "",
            "distribution": (),
            "protocol": name,
            "protocols": {_protocol_name(recipe, card): _protocol(recipe, card) for card in members},
        }
    )
    return BundleHead(
        card=TaskCard.model_validate(card.model_dump()),
        protocol=name,
        options=recipe.head_options,
        members={member.name: _protocol_name(recipe, member) for member in members},
    )


class Taught(NamedTuple):
    """The head that learns a task, and the task's protocol."""

    head: str
    protocol: str


def taught(spec: BundleSpec) -> dict[str, Taught]:
    """Every task of a bundle, with its head."""
    return {
        task: Taught(head, protocol)
        for head, held in spec.heads.items()
        for task, protocol in (held.members or {head: held.protocol}).items()
    }


def _protocol_name(recipe: FinetuneRecipe, card: TaskCard) -> str:
    return recipe.protocols.get(card.name, card.protocol)


def _protocol(recipe: FinetuneRecipe, card: TaskCard) -> Protocol:
    return card.protocol_named(recipe.protocols.get(card.name))


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


def _same_labels(name: str, card: TaskCard, head: BundleHead) -> None:
    # A joint head has the labels of its other tasks too.
    fits = set(card.labels) <= set(head.card.labels) if head.members else card.labels == head.card.labels
    if card.kind is not head.card.kind or not fits:
        raise RecipeError(
            f"the task {name} is not the one its head was taught: kind or labels differ",
            fix="Give the task as it was when the bundle was made",
        )


def extended(old: BundleSpec, heads: dict[str, BundleHead]) -> BundleSpec:
    """The old heads as they are, then the new ones."""
    return old.model_copy(update={"heads": {**old.heads, **heads}})


def hold_still(model: MultiHeadModel, heads: Sequence[str]) -> None:
    """Let nothing learn but these heads."""
    model.requires_grad_(False)
    for name in heads:
        model.head(name).requires_grad_(True)


def check(recipe: FinetuneRecipe, tasks: Sequence[TaskFolder], rehearsed: Sequence[TaskFolder] = ()) -> None:
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
