"""Check a fine-tuning recipe against its tasks, and derive the heads it trains."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from osler.artifacts.bundle_spec import SEVERAL_LANGUAGES, BundleHead, BundleSpec
from osler.artifacts.task_folder import TaskFolder
from osler.core.errors import ArtifactError, RecipeError, alternatives
from osler.stages.finetune.config import MLM, FinetuneRecipe, TaskTeacher
from osler.tasks.card import BY_TOKEN, Kind, Protocol, TaskCard

# Protocol fields that determine the tags of a head and how they are decoded.
_HEAD_FIELDS = ("scheme", "subwords", "read", "fragments", "merged", "decoding", "repair")


def check(recipe: FinetuneRecipe, tasks: Sequence[TaskFolder], rehearsed: Sequence[TaskFolder] = ()) -> None:
    """Raise an error if the tasks cannot be trained as the recipe asks."""
    cards = [task.card for task in tasks]
    old_cards = [task.card for task in rehearsed]
    names = [card.name for card in [*old_cards, *cards]]
    for name in names:
        if names.count(name) > 1:
            raise RecipeError(f"the task {name} is given twice", fix="Give each task once")
    for name in recipe.protocols:
        _check_known(name, [card.name for card in cards], "protocols")
    _check_mixing(recipe, names)
    _check_crf(recipe, cards)
    if recipe.head == "pooler" and recipe.relations == "markers":
        for card in cards:
            if card.kind is Kind.RELATION:
                raise RecipeError(
                    f"the pooler reads the first token, but the head for {card.name} reads markers",
                    fix='Set head = "mlp" or "linear", or remove relations = "markers"',
                )
    if recipe.teacher:
        _check_teacher(recipe.teacher, names)
    for card in cards:
        if "test" in _protocol(recipe, card).train_on:
            raise RecipeError(
                f"protocol {card.protocol_id(_protocol_name(recipe, card))} trains on test",
                fix="Choose a protocol that does not train on the test split",
            )
    for task in [*rehearsed, *tasks]:
        _check_splits(task, task.card.protocol_named(recipe.protocols.get(task.card.name)))
    _check_joint(recipe, cards)
    if recipe.add_to:
        _check_added(recipe, BundleSpec.load(recipe.add_to), cards, old_cards)


def check_pooler(recipe: FinetuneRecipe, tasks: Sequence[TaskFolder], encoder: Path) -> None:
    """Raise an error if the recipe starts heads from the encoder's pooler and there is none."""
    if recipe.head == "pooler" and any(task.card.kind not in BY_TOKEN for task in tasks):
        from osler.nn.multihead import pooler_of  # loads torch

        pooler_of(encoder)


def _check_splits(task: TaskFolder, protocol: Protocol) -> None:
    needed = dict.fromkeys(protocol.train_on, "to train on")
    needed.setdefault("dev", "to choose the best epoch by")
    for split, reason in needed.items():
        if split not in task.splits:
            raise ArtifactError(
                f"the task has no {split} split {reason}; it has {', '.join(task.splits)}",
                where=task.artifact.path,
                fix=f"Add splits.{split} to its card and prepare it again",
            )


def head_specs(recipe: FinetuneRecipe, cards: Sequence[TaskCard]) -> dict[str, BundleHead]:
    """Return the heads for these tasks, one per task or joint group, in task order."""
    by_name = {card.name: card for card in cards}
    owner = {name: head for head, members in recipe.joint.items() for name in members}
    heads: dict[str, BundleHead] = {}
    for card in cards:
        name = owner.get(card.name, card.name)
        if name == card.name:
            protocol = _protocol_name(recipe, card)
            heads[name] = BundleHead(card=card, protocol=protocol, options=recipe.head_options)
        elif name not in heads:
            heads[name] = _joint_head(recipe, name, [by_name[member] for member in recipe.joint[name]])
    return heads


def _joint_head(recipe: FinetuneRecipe, name: str, members: Sequence[TaskCard]) -> BundleHead:
    first = members[0]
    languages = {card.language for card in members}
    card = TaskCard(
        name=name,
        title="; ".join(card.title for card in members),
        kind=Kind.TAGGING,
        language=first.language if len(languages) == 1 else SEVERAL_LANGUAGES,
        domain=first.domain,
        labels=tuple(dict.fromkeys(label for card in members for label in card.labels)),
        sentences=first.sentences,
        phi=first.phi if all(card.phi == first.phi for card in members) else None,
        licence="; ".join(dict.fromkeys(card.licence for card in members)),
        citation="\n".join(dict.fromkeys(card.citation for card in members if card.citation)),
        source=first.source,
        protocol=_protocol_name(recipe, first),
        protocols={_protocol_name(recipe, card): _protocol(recipe, card) for card in members},
    )
    own = {member.name: _protocol_name(recipe, member) for member in members}
    return BundleHead(card=card, protocol=card.protocol, options=recipe.head_options, members=own)


def _protocol_name(recipe: FinetuneRecipe, card: TaskCard) -> str:
    return recipe.protocols.get(card.name, card.protocol)


def _protocol(recipe: FinetuneRecipe, card: TaskCard) -> Protocol:
    return card.protocol_named(recipe.protocols.get(card.name))


def _check_known(name: str, names: Collection[str], section: str) -> None:
    if name not in names:
        fix = alternatives(name, names, "Tasks")
        raise RecipeError(f"{section} names the task {name!r}, which is not among the tasks", fix=fix)


def _check_mixing(recipe: FinetuneRecipe, names: Sequence[str]) -> None:
    if recipe.mlm and MLM in names:
        raise RecipeError(f"a task cannot be named {MLM!r} if the recipe has [mlm]", fix="Rename the task in its card")
    if recipe.mlm and MLM in recipe.mixing.loss_weights:
        raise RecipeError("mixing.loss_weights cannot weight raw text", fix="Set mlm.weight")
    for name in recipe.mixing.loss_weights:
        _check_known(name, names, "mixing.loss_weights")
    for name in recipe.mixing.batch_sizes:
        _check_known(name, [*names, MLM] if recipe.mlm else names, "mixing.batch_sizes")


def _check_crf(recipe: FinetuneRecipe, cards: Sequence[TaskCard]) -> None:
    crf = [card.name for card in cards if recipe.tagger == "crf" and card.kind is Kind.TAGGING]
    if recipe.rehearse and recipe.add_to:
        crf += [name for name, head in BundleSpec.load(recipe.add_to).heads.items() if head.options.tagger == "crf"]
    for option, used in {"class_weights": recipe.class_weights != "none", "teacher": recipe.teacher}.items():
        if crf and used:
            raise RecipeError(
                f"{option} is not supported with a CRF head, which {crf[0]} has",
                fix=f'Remove tagger = "crf" or {option}',
            )


def _check_teacher(settings: TaskTeacher, tasks: Sequence[str]) -> None:
    folder = settings.bundle
    heads = BundleSpec.load(folder).heads
    missing = [name for name in tasks if name not in heads]
    if missing:
        raise RecipeError(
            f"the teacher has no head for {', '.join(missing)}",
            where=folder,
            fix=f"Give a teacher that was trained on the same tasks. Its heads: {', '.join(heads)}",
        )
    for name in tasks:
        if heads[name].card.kind is Kind.TAGGING and heads[name].options.tagger == "crf":
            raise RecipeError(
                f"the teacher's head for {name} is a CRF, which has no soft labels for single words",
                where=folder,
                fix='Give a teacher that was trained without tagger = "crf"',
            )


def _check_joint(recipe: FinetuneRecipe, cards: Sequence[TaskCard]) -> None:
    if recipe.joint and recipe.tagger == "crf":
        raise RecipeError("a joint head cannot be a CRF", fix='Remove tagger = "crf" or joint')
    if recipe.joint and recipe.teacher:
        raise RecipeError("a joint head cannot have a teacher", fix="Remove teacher or joint")
    by_name = {card.name: card for card in cards}
    seen: set[str] = set()
    for head, members in recipe.joint.items():
        if head in by_name:
            raise RecipeError(f"the joint head {head!r} has the name of a task", fix="Choose another name")
        for name in members:
            _check_known(name, by_name, f"joint.{head}")
            if name in seen:
                raise RecipeError(f"the task {name} is named twice in joint", fix="Use each task for one head")
            seen.add(name)
            if by_name[name].kind is not Kind.TAGGING:
                raise RecipeError(
                    f"the task {name} of the joint head {head!r} is {by_name[name].kind}, not tagging",
                    fix="Only tagging tasks can share a head",
                )
        first = by_name[members[0]]
        for name in members:
            card = by_name[name]
            # Protocols of the same name must be equal, because scores are reported under that name.
            same_name = _protocol_name(recipe, first) == _protocol_name(recipe, card)
            one, other = _protocol(recipe, first), _protocol(recipe, card)
            for key in Protocol.model_fields if same_name else _HEAD_FIELDS:
                if getattr(one, key) != getattr(other, key):
                    raise RecipeError(
                        f"the protocols of {first.name} and {name} in the joint head {head!r} differ in {key}",
                        fix="Choose protocols with one tagging scheme for them (protocols.TASK)",
                    )


def _check_added(
    recipe: FinetuneRecipe, old: BundleSpec, new: Sequence[TaskCard], rehearsed: Sequence[TaskCard]
) -> None:
    """Check that adding heads to a bundle does not harm its old heads."""
    known = old.tasks
    for card in new:
        if card.name in known or card.name in old.heads:
            raise RecipeError(
                f"the bundle already has a head for {card.name}",
                where=recipe.add_to,
                fix="To train it again, give its task with --rehearse",
            )
    for name in recipe.joint.keys() & old.heads.keys():
        raise RecipeError(f"the bundle already has a head {name!r}", where=recipe.add_to, fix="Rename the joint head")
    for name in ("max_length", "overlap"):
        asked, has = getattr(recipe, name), getattr(old, name)
        if name in recipe.model_fields_set and asked != has:
            raise RecipeError(
                f"{name} is {asked}, but the heads of the bundle share windows with {name} {has}",
                where=recipe.add_to,
                fix=f"Remove {name}",
            )
    if not recipe.rehearse:
        asked = {"lora": recipe.lora is not None, "mlm": recipe.mlm is not None}
        asked |= {"reinitialise": recipe.reinitialise, "freeze": recipe.freeze not in ("nothing", "encoder")}
        for name, given in asked.items():
            if given:
                raise RecipeError(
                    f"{name} needs an encoder that is trained; without rehearsal the bundle's is frozen",
                    where=recipe.add_to,
                    fix=f"Remove {name}, or give the old tasks with --rehearse",
                )
        return
    for card in rehearsed:
        if card.name not in known:
            raise RecipeError(
                f"the bundle was not trained on {card.name}, so it cannot be rehearsed",
                where=recipe.add_to,
                fix=f"Give it as a new task. Tasks of the bundle: {', '.join(known)}",
            )
        head = old.heads[known[card.name].head]
        # A joint head has the labels of its other tasks too.
        fits = set(card.labels) <= set(head.card.labels) if head.members else card.labels == head.card.labels
        if card.kind is not head.card.kind or not fits:
            raise RecipeError(
                f"the task {card.name} is not the one its head was trained on: kind or labels differ",
                fix="Give the task as it was when the bundle was made",
            )
    missing = [name for name in known if name not in {card.name for card in rehearsed}]
    if missing:
        raise RecipeError(
            f"rehearsal changes the encoder, and the head of {missing[0]} would no longer fit it",
            where=recipe.add_to,
            fix="Give the tasks of all heads with --rehearse, or none to keep encoder and heads as they are",
        )
