"""Score a bundle on a split of a task under a named protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from osler.artifacts.bundle import Bundle, BundleSpec
from osler.artifacts.task_folder import TaskFolder, read_records, write_records
from osler.core.artifact import MANIFEST, Artifact, Workspace, identity_of, produce
from osler.core.config import Recipe, runtime
from osler.core.errors import ArtifactError, RecipeError, nearest
from osler.core.extras import require
from osler.core.files import write_json
from osler.stages.evaluate.errors import WRONG, find_errors, outcomes
from osler.tasks.card import Kind, Protocol, TaskCard
from osler.tasks.instances.base import HeadOptions
from osler.tasks.scoring import Scored, score
from osler.text.document import Record


class EvaluateRecipe(Recipe):
    """Which head of which bundle on which split of which task."""

    bundle: Path = runtime()
    task: Path = runtime()
    """A task artifact."""
    head: str | None = None
    """The head to use; by default the one named like the task."""
    split: str = "test"
    protocol: str | None = None
    """The protocol to score under; by default the one the head was taught under."""
    errors: bool = False
    """Whether to write the errors too: a page, which holds the text of documents, and a list and counts, which do not."""
    error_documents: int = Field(200, ge=1)
    """How many documents the error page shows at most."""
    device: str = runtime("auto")

    def identity(self) -> dict[str, Any]:
        """Without errors, how they would be shown is no part of what an evaluation is."""
        values = super().identity()
        if not self.errors:
            del values["errors"], values["error_documents"]
        return values


AFTERWARDS = frozenset({"version", "description", "metric", "decoding", "repair"})
"""The fields of a protocol that do not say how a head is taught."""


def head_for(spec: BundleSpec, card: TaskCard, name: str | None = None) -> str:
    """The head to use: the one asked for, the one with the task's name, or the one that it taught together with others."""
    shared = [head for head, values in spec.heads.items() if card.name in (values.members or {})]
    wanted = name or (card.name if card.name in spec.heads or not shared else shared[0])
    if wanted not in spec.heads:
        close = nearest(wanted, spec.heads)
        hint = f"Did you mean {close!r}? " if close else ""
        raise RecipeError(f"this bundle has no head {wanted!r}", fix=f"{hint}Heads: {', '.join(spec.heads)}")
    return wanted


def read_under(spec: BundleSpec, name: str, card: TaskCard, protocol: str | None) -> tuple[BundleSpec, str]:
    """The heads, one of them read under a protocol of the task (by default the head's own), and that protocol's name."""
    head = spec.heads[name]
    if head.card.kind is not card.kind:
        raise RecipeError(
            f"the head is for {head.card.kind}, the task is {card.kind}",
            where=f"task {card.name}",
            fix="Choose another --head",
        )
    own = (head.members or {}).get(card.name, head.protocol)
    taught = head.card.protocols.get(own) or card.protocol_named(own)
    wanted = protocol or own
    differing = taught_otherwise(taught, card.protocol_named(wanted))
    if differing:
        fitting = [other for other, values in card.protocols.items() if not taught_otherwise(taught, values)]
        raise RecipeError(
            f"the head {name!r} was taught under {own!r}, which differs from {wanted!r} in "
            f"{', '.join(differing)}: it can give no number of that protocol",
            where=f"task {card.name}",
            fix=f"Use one of: {', '.join(fitting)}" if fitting else "Teach a head under that protocol",
        )
    protocols = {**head.card.protocols, wanted: card.protocol_named(wanted)}
    read = head.changed(card=head.card.changed(protocols=protocols), protocol=wanted)
    return spec.changed(heads={**spec.heads, name: read}), wanted


def printed_id(card: TaskCard, protocol: str, options: HeadOptions) -> str:
    """The protocol as it is named beside a number: with what the head was made to do otherwise, for that is another number."""
    tagging = card.kind is Kind.TAGGING
    return card.protocol_id(protocol, options.read_otherwise(card.protocol_named(protocol).decoding) if tagging else "")


def taught_otherwise(one: Protocol, other: Protocol) -> list[str]:
    """The fields in which two protocols teach differently."""
    return [
        name for name in Protocol.model_fields if name not in AFTERWARDS and getattr(one, name) != getattr(other, name)
    ]


PREDICTIONS = "predictions.parquet"


def plan(recipe: EvaluateRecipe, out: Path) -> list[str]:
    """What `run` will do, for a person."""
    lines = [
        f"predict the {recipe.split} split of {recipe.task} with {recipe.bundle}",
        f"score it under {'protocol ' + recipe.protocol if recipe.protocol else 'the protocol its head was taught under'}",
        f"write predictions and metrics to {out}",
    ]
    if recipe.errors:
        lines.append(f"write the errors, and a page that holds the text of up to {recipe.error_documents:,} documents")
    return lines


def run(recipe: EvaluateRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the evaluation artifact; errors asked for later are made from the predictions that are there."""
    bundle_artifact = Artifact.open(recipe.bundle, kind="bundle")
    task = TaskFolder.open(recipe.task)
    spec = BundleSpec.load(recipe.bundle)
    name = head_for(spec, task.card, recipe.head)
    spec, protocol = read_under(spec, name, task.card, recipe.protocol)
    printed = printed_id(task.card, protocol, spec.heads[name].options)
    if recipe.split not in task.splits:
        raise ArtifactError(
            f"no split {recipe.split!r}", where=recipe.task, fix=f"Use one of: {', '.join(task.splits)}"
        )
    if recipe.errors:
        # Before minutes of work, not after them.
        require("jinja2", "report")
        require("matplotlib", "report")
    parents: dict[str, str | Artifact] = {"bundle": bundle_artifact, "task": task.artifact}
    there = _recipe_in(out, recipe, parents)
    if there is not None and there.errors and not recipe.errors and not force:
        return replace(Artifact.open(out.absolute()), reused=True)  # it holds all that is asked for, and more
    plain = out if there is not None and recipe.errors and not there.errors and not force else None

    def build(work: Workspace) -> None:
        gold = task.read(recipe.split)
        if plain is not None:
            predicted = list(read_records(plain / PREDICTIONS))
        else:
            loaded = Bundle.load(recipe.bundle, recipe.device)
            predicted = Bundle(loaded.model, loaded.tokens, spec).predict_task(name, task.card, gold)
        scored = score(task.card, task.card.protocol_named(protocol), gold, predicted)
        write_records(predicted, work.path / PREDICTIONS, pairs=task.card.record == "pair")
        write_json(
            work.path / "metrics.json",
            {
                "task": task.card.name,
                "split": recipe.split,
                "protocol": printed,
                "metric": task.card.protocol_named(protocol).metric,
                "main": scored.main,
                "metrics": scored.metrics,
                "details": scored.details,
            },
        )
        work.counts.update(records=len(gold), **{name: round(value, 6) for name, value in scored.metrics.items()})
        if recipe.errors:
            _write_errors(recipe, task, protocol, printed, gold, predicted, scored, work)

    return produce(
        out, kind="evaluation", recipe=recipe, parents=parents, build=build, force=force or plain is not None
    )


def _recipe_in(out: Path, recipe: EvaluateRecipe, parents: dict[str, str | Artifact]) -> EvaluateRecipe | None:
    """The recipe of the finished evaluation in a folder, where it differs from this one in its errors at most."""
    if not (out / MANIFEST).is_file():
        return None
    manifest = Artifact.open(out).manifest
    asked = {key: manifest.recipe[key] for key in ("errors", "error_documents") if key in manifest.recipe}
    there = recipe.changed(**{"errors": False, **asked})
    return there if manifest.identity == identity_of("evaluation", there, parents) else None


def _write_errors(
    recipe: EvaluateRecipe,
    task: TaskFolder,
    protocol: str,
    printed: str,
    gold: Sequence[Record],
    predicted: Sequence[Record],
    scored: Scored,
    work: Workspace,
) -> None:
    from osler.stages.evaluate.error_page import Heading, write_error_page
    from osler.stages.evaluate.error_tables import in_words, write_errors_csv, write_errors_json

    card = task.card
    errors = find_errors(card, card.protocol_named(protocol), gold, predicted)
    heading = Heading(recipe.split, printed, card.protocol_named(protocol).metric, scored.main, scored.metrics)
    facts = {"task": card.name, "kind": card.kind.value, "split": recipe.split, "protocol": heading.protocol}
    write_errors_csv(errors, work.path / "errors.csv")
    write_errors_json(errors, work.path / "errors.json", facts)
    write_error_page(errors, heading, work.path / "errors.html", documents=recipe.error_documents)
    if card.kind is not Kind.REGRESSION:
        counts = outcomes(errors.findings)
        work.counts.update({in_words(card.kind, outcome): counts[outcome] for outcome in WRONG if counts[outcome]})
