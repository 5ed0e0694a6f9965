"""Score a bundle on a split of a task: predictions with characters and scores, and the numbers under a named protocol."""

from __future__ import annotations

from pathlib import Path

from osler.bundle.bundle import Bundle
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.errors import RecipeError
from osler.core.files import write_json
from osler.stages.evaluate.config import EvaluateRecipe
from osler.tasks.data import TaskData, write_records
from osler.tasks.scoring import score


def plan(recipe: EvaluateRecipe, out: Path) -> list[str]:
    """What `run` will do, for a person."""
    return [
        f"predict the {recipe.split} split of {recipe.task} with {recipe.bundle}",
        f"score it under {'protocol ' + recipe.protocol if recipe.protocol else 'the protocol its head was taught under'}",
        f"write predictions and metrics to {out}",
    ]


def run(recipe: EvaluateRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the evaluation artifact."""
    bundle_artifact = Artifact.open(recipe.bundle, kind="bundle")
    task = TaskData.open(recipe.task)

    def build(work: Workspace) -> None:
        bundle = Bundle.load(recipe.bundle, recipe.device)
        head = bundle.head(recipe.head or task.card.name)
        if head.card.kind is not task.card.kind:
            raise RecipeError(
                f"the head is for {head.card.kind}, the task is {task.card.kind}",
                where=recipe.task,
                fix="Choose another --head",
            )
        gold = task.read(recipe.split)
        predicted = bundle.predict(recipe.head or task.card.name, gold)
        protocol = recipe.protocol or head.protocol
        scored = score(task.card, task.card.protocol_named(protocol), gold, predicted)
        write_records(predicted, work.path / "predictions.parquet", pairs=task.card.record == "pair")
        write_json(
            work.path / "metrics.json",
            {
                "task": task.card.name,
                "split": recipe.split,
                "protocol": task.card.protocol_id(protocol),
                "metric": task.card.protocol_named(protocol).metric,
                "main": scored.main,
                "metrics": scored.metrics,
                "details": scored.details,
            },
        )
        work.counts.update(records=len(gold), **{name: round(value, 6) for name, value in scored.metrics.items()})

    parents: dict[str, str | Artifact] = {"bundle": bundle_artifact, "task": task.artifact}
    return produce(out, kind="evaluation", recipe=recipe, parents=parents, build=build, force=force)
