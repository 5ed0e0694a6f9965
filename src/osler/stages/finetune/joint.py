"""One tagging head for several corpora that annotate different types, and which head each task teaches.

The head has the types of all of them. A corpus that marks a word O says nothing of the types it does not annotate, so it does not
teach that they are absent (`osler.nn.partial`); each task is scored by its own types alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from osler.bundle.spec import BundleSpec, HeadSpec
from osler.core.errors import RecipeError, nearest
from osler.stages.finetune.config import FinetuneRecipe
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


def head_specs(recipe: FinetuneRecipe, cards: Sequence[TaskCard]) -> dict[str, HeadSpec]:
    """The heads these tasks need: one each, and one for those that share it, in the order of the tasks."""
    by_name = {card.name: card for card in cards}
    owner = {name: head for head, members in recipe.joint.items() for name in members}
    heads: dict[str, HeadSpec] = {}
    for card in cards:
        head = owner.get(card.name, card.name)
        if head in heads:
            continue
        if head == card.name:
            heads[head] = HeadSpec(card=card, protocol=_protocol_name(recipe, card), options=recipe.head_options)
        else:
            heads[head] = _joint_spec(recipe, head, [by_name[name] for name in recipe.joint[head]])
    return heads


def _joint_spec(recipe: FinetuneRecipe, head: str, members: Sequence[TaskCard]) -> HeadSpec:
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
    return HeadSpec(
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
