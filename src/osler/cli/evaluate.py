"""`osler evaluate`: a bundle on a split of a task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osler.cli.common import DryRunOption, ForceOption, OutOption, RecipeOption, SetOption, perform


def evaluate(
    bundle: Annotated[Path | None, typer.Argument(help="A bundle folder.")] = None,
    task: Annotated[Path | None, typer.Option("--task", help="A task folder.")] = None,
    split: Annotated[str | None, typer.Option("--split", help="Which split; test by default.")] = None,
    head: Annotated[
        str | None, typer.Option("--head", help="Which head; the one named like the task by default.")
    ] = None,
    protocol: Annotated[
        str | None, typer.Option("--protocol", help="Score under another protocol of the task.")
    ] = None,
    out: OutOption = Path("runs/evaluation"),
    recipe: RecipeOption = None,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Score a bundle: predictions with offsets and scores, metrics under a named protocol."""
    from osler.stages.evaluate.config import EvaluateRecipe
    from osler.stages.evaluate.run import plan, run

    options = {"bundle": bundle, "task": task, "split": split, "head": head, "protocol": protocol}
    perform(EvaluateRecipe, plan, run, recipe=recipe, sets=sets, options=options, out=out, force=force, dry_run=dry_run)
