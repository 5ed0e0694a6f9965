"""Evaluate a bundle on a split of a task under a named protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import BundleSpec
from osler.artifacts.evaluation import Evaluation, EvaluationMetrics
from osler.artifacts.task_folder import TaskFolder
from osler.core.artifact import MANIFEST, Artifact, Workspace, check_out, identity_of, produce
from osler.core.console import progress
from osler.core.errors import ArtifactError, RecipeError
from osler.core.extras import require
from osler.core.models import bundle_title
from osler.stages.evaluate.config import EvaluateRecipe
from osler.stages.evaluate.errors import WRONG, Errors, find_errors, outcomes
from osler.tasks.card import Kind, Protocol, TaskCard
from osler.tasks.scoring import Scored, score
from osler.tasks.seen import form_metrics, mention_forms, score_by_form
from osler.text.document import Document, Record


@dataclass(frozen=True)
class _Inputs:
    """The inputs named in a recipe, opened and checked against each other, but without reading weights or records."""

    task: TaskFolder
    spec: BundleSpec
    """The bundle's spec with the head set to the protocol."""
    head: str
    protocol: Protocol
    protocol_id: str
    seen_in: list[TaskFolder]
    """Tasks whose training mentions count as seen."""
    parents: dict[str, str | Artifact]

    @classmethod
    def open(cls, recipe: EvaluateRecipe) -> _Inputs:
        bundle = Artifact.open(recipe.bundle, kind="bundle")
        task = TaskFolder.open(recipe.task)
        spec = BundleSpec.load(recipe.bundle)
        head = _head_of(spec, task.card, recipe)
        spec, protocol_name = _with_protocol(spec, head, task.card, recipe.protocol)
        protocol = task.card.protocol_named(protocol_name)
        # Decoding other than the protocol's changes the score, so it becomes part of the protocol id.
        tagging = task.card.kind is Kind.TAGGING
        decoding = spec.heads[head].options.other_decoding(protocol.decoding) if tagging else ""
        if recipe.split not in task.splits:
            raise ArtifactError(
                f"no split {recipe.split!r}", where=recipe.task, fix=f"Use one of: {', '.join(task.splits)}"
            )
        Bundle.check_device(recipe.bundle, recipe.device)
        if recipe.errors:  # fail early, not after minutes of work
            require("jinja2", "report")
            require("matplotlib", "report")
        protocol_id = task.card.protocol_id(protocol_name, decoding)
        _check_labels(spec, head, task.card, recipe)
        parents: dict[str, str | Artifact] = {"bundle": bundle, "task": task.artifact}
        seen_in = _seen_in(task, recipe)
        if recipe.seen_in:
            parents |= {f"seen:{number}": one.artifact for number, one in enumerate(seen_in)}
        return cls(task, spec, head, protocol, protocol_id, seen_in, parents)


def plan(recipe: EvaluateRecipe, out: Path, *, dry_run: bool = False, force: bool = False) -> list[str]:
    """Describe what `run` will do, and raise the same errors if the inputs do not fit. A dry run also checks `out`."""
    inputs = _Inputs.open(recipe)
    size = inputs.task.artifact.counts.get(recipe.split)
    records = f" ({size:,} {inputs.task.card.record}s)" if size else ""
    model = f"the head {inputs.head} of {bundle_title(recipe.bundle)}"
    lines = [
        f"predict the {recipe.split} split of {inputs.task.card.name}{records} with {model}",
        f"score it under {inputs.protocol_id}: {inputs.protocol.metric}",
    ]
    if inputs.seen_in:
        names = ", ".join(task.card.name for task in inputs.seen_in)
        lines.append(f"score apart what was seen in training ({names}) and what was not")
    if recipe.errors:
        lines.append(f"write the errors, and a page with the text of up to {recipe.error_documents:,} documents")
    if dry_run and (force or _existing(out, recipe, inputs.parents) is None):
        check_out(out, kind="evaluation", recipe=recipe, parents=inputs.parents, force=force)
    return [*lines, f"write predictions and metrics to {out}"]


def run(recipe: EvaluateRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the evaluation artifact, reusing existing predictions if only errors are to be added."""
    inputs = _Inputs.open(recipe)
    task, head, protocol = inputs.task, inputs.head, inputs.protocol
    existing = None if force else _existing(out, recipe, inputs.parents)
    if existing is not None and existing.errors and not recipe.errors:
        return replace(Artifact.open(out.absolute()), reused=True)  # it already has everything asked for
    add_errors = existing is not None and recipe.errors and not existing.errors

    def build(work: Workspace) -> None:
        gold = task.read(recipe.split)
        if add_errors:
            predicted = list(Evaluation.open(out).predictions())
        else:
            bundle = replace(Bundle.load(recipe.bundle, recipe.device), spec=inputs.spec)
            instances = bundle.builders[head].build(gold, gold=False).instances
            with progress(f"evaluate {task.card.name}", len(instances)) as bar:
                whole = None if recipe.label_map else task.card
                predicted = bundle.predict(head, gold, task=whole, instances=instances, advance=bar.advance)
            if recipe.label_map:
                predicted = [
                    _renamed(record, recipe.label_map, task.card.under(protocol).labels) for record in predicted
                ]
        scored = score(task.card, protocol, gold, predicted)
        if inputs.seen_in:
            scored = _with_seen(scored, inputs, gold, predicted)
        metrics = EvaluationMetrics(
            task=task.card.name,
            split=recipe.split,
            protocol=inputs.protocol_id,
            metric=protocol.metric,
            main=scored.main,
            metrics=scored.metrics,
            details=scored.details,
        )
        Evaluation.write(work.path, metrics, predicted, pairs=task.card.record == "pair")
        work.counts.update(records=len(gold), **{name: round(value, 6) for name, value in scored.metrics.items()})
        if recipe.errors:
            errors = find_errors(task.card, protocol, gold, predicted)
            _write_errors(errors, metrics, work, documents=recipe.error_documents)

    return produce(
        out, kind="evaluation", recipe=recipe, parents=inputs.parents, build=build, force=force or add_errors
    )


def _head_of(spec: BundleSpec, card: TaskCard, recipe: EvaluateRecipe) -> str:
    """Return the head asked for, the one with the task's name, or the joint head that was trained on the task."""
    if recipe.head:
        spec.head(recipe.head)
        return recipe.head
    if card.name in spec.heads:
        return card.name
    if card.name in spec.tasks:
        return spec.tasks[card.name].head
    same = [name for name, head in spec.heads.items() if head.card.kind is card.kind]
    other = f"name one that fits with --head: {', '.join(same)}" if same else "fine-tune one on it"
    raise RecipeError(
        f"no head was trained on the task {card.name} (heads: {', '.join(spec.heads)})",
        where=recipe.bundle,
        fix=f"Evaluate the task of a head, or {other}",
    )


def _with_protocol(spec: BundleSpec, name: str, card: TaskCard, protocol: str | None) -> tuple[BundleSpec, str]:
    """Return the spec with one head set to a protocol of the task (by default the head's own), and the protocol's name."""
    head = spec.heads[name]
    if head.card.kind is not card.kind:
        raise RecipeError(
            f"the head is for {head.card.kind}, the task is {card.kind}",
            where=f"task {card.name}",
            fix="Choose another --head",
        )
    own = (head.members or {}).get(card.name, head.protocol)
    trained = head.card.protocols.get(own) or card.protocol_named(own)
    wanted = protocol or own
    differing = trained.training_differences(card.protocol_named(wanted))
    if differing:
        fitting = [other for other, values in card.protocols.items() if not trained.training_differences(values)]
        raise RecipeError(
            f"the head {name!r} was trained under {own!r}, which differs from {wanted!r} in {', '.join(differing)}; "
            "it cannot be scored under that protocol",
            where=f"task {card.name}",
            fix=f"Use one of: {', '.join(fitting)}" if fitting else "Train a head under that protocol",
        )
    protocols = {**head.card.protocols, wanted: card.protocol_named(wanted)}
    changed = head.changed(card=head.card.changed(protocols=protocols), protocol=wanted)
    return spec.changed(heads={**spec.heads, name: changed}), wanted


def _check_labels(spec: BundleSpec, head: str, card: TaskCard, recipe: EvaluateRecipe) -> None:
    """Raise an error if the map has unknown labels, or the head shares no label with the task."""
    if card.kind is not Kind.TAGGING:
        for name, given in {"--label": recipe.label_map, "--seen": recipe.seen}.items():
            if given:
                raise RecipeError(f"{name} is for mentions, the task is {card.kind}", fix=f"Leave out {name}")
        return
    one = spec.heads[head]
    own, wanted = (side.under(one.card.protocol_named(one.protocol)).labels for side in (one.card, card))
    for labels, known, owner in (
        (recipe.label_map.keys(), own, f"the head {head}"),
        (recipe.label_map.values(), wanted, f"the task {card.name}"),
    ):
        for label in labels:
            if label not in known:
                raise RecipeError(
                    f"{owner} has no label {label!r}", where="--label", fix=f"Its labels: {', '.join(known)}"
                )
    if not recipe.label_map and not set(own) & set(wanted):
        raise RecipeError(
            f"the head {head} has none of the task's labels",
            where=f"task {card.name}",
            fix=f"Say which are the same with --label HEAD=TASK. Head: {', '.join(own)}. Task: {', '.join(wanted)}",
        )


def _renamed(record: Record, label_map: Mapping[str, str], labels: Sequence[str]) -> Record:
    """Rename a prediction's labels for another corpus, dropping those that neither the map nor the corpus has."""
    if not isinstance(record, Document):
        return record
    spans = tuple(replace(span, label=label_map.get(span.label, span.label)) for span in record.spans)
    return record.with_(spans=spans).only(labels)


def _seen_in(task: TaskFolder, recipe: EvaluateRecipe) -> list[TaskFolder]:
    if not recipe.seen:
        if recipe.seen_in:
            raise RecipeError("--seen-in has no effect without --seen", fix="Give --seen too")
        return []
    found = [TaskFolder.open(path) for path in recipe.seen_in] or [task]
    for one in found:
        if "train" not in one.splits:
            raise RecipeError(
                "no train split to have seen mentions in", where=one.artifact.path, fix="Choose --seen-in"
            )
    return found


def _with_seen(scored: Scored, inputs: _Inputs, gold: Sequence[Record], predicted: Sequence[Record]) -> Scored:
    """Add the scores of mentions with seen and unseen forms."""
    known = mention_forms(record for task in inputs.seen_in for record in task.read("train"))
    found = score_by_form(inputs.task.card, inputs.protocol, gold, predicted, known)
    forms = {"known": len(known), **{name: side.as_dict() for name, side in found.items()}}
    return replace(scored, metrics=scored.metrics | form_metrics(found), details={**scored.details, "forms": forms})


def _existing(out: Path, recipe: EvaluateRecipe, parents: dict[str, str | Artifact]) -> EvaluateRecipe | None:
    """Return the recipe of the evaluation at `out` if it differs from this one at most in its error settings."""
    if not (out / MANIFEST).is_file():
        return None
    manifest = Artifact.open(out).manifest
    asked = {key: manifest.recipe[key] for key in ("errors", "error_documents") if key in manifest.recipe}
    there = recipe.changed(**{"errors": False, **asked})
    return there if manifest.identity == identity_of("evaluation", there, parents) else None


def _write_errors(errors: Errors, metrics: EvaluationMetrics, work: Workspace, *, documents: int) -> None:
    from osler.stages.evaluate.error_page import write_error_page
    from osler.stages.evaluate.error_tables import in_words, write_errors_csv, write_errors_json

    kind = errors.card.kind
    facts = {"task": metrics.task, "kind": kind.value, "split": metrics.split, "protocol": metrics.protocol}
    write_errors_csv(errors, work.path / "errors.csv")
    write_errors_json(errors, work.path / "errors.json", facts)
    write_error_page(errors, metrics, work.path / "errors.html", documents=documents)
    if kind is not Kind.REGRESSION:
        counts = outcomes(errors.findings)
        work.counts.update({in_words(kind, outcome): counts[outcome] for outcome in WRONG if counts[outcome]})
