"""Score a bundle on a split of a task: predictions with characters and scores, and the numbers under a named protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from osler.bundle.bundle import Bundle
from osler.bundle.spec import BundleSpec
from osler.core.artifact import MANIFEST, Artifact, Workspace, identity_of, produce
from osler.core.errors import ArtifactError
from osler.core.extras import require
from osler.core.files import write_json
from osler.stages.evaluate.config import EvaluateRecipe
from osler.stages.evaluate.errors import find_errors
from osler.stages.evaluate.findings import WRONG, outcomes
from osler.stages.evaluate.protocol import head_for, printed_id, read_under
from osler.tasks.card import Kind
from osler.tasks.data import TaskData, read_records, write_records
from osler.tasks.scoring import Scored, score
from osler.text.document import Record

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
    task = TaskData.open(recipe.task)
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
    task: TaskData,
    protocol: str,
    printed: str,
    gold: Sequence[Record],
    predicted: Sequence[Record],
    scored: Scored,
    work: Workspace,
) -> None:
    from osler.stages.evaluate.error_files import write_errors_csv, write_errors_json
    from osler.stages.evaluate.error_page import Heading, write_error_page
    from osler.stages.evaluate.error_tables import in_words

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
