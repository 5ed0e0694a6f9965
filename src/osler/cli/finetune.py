"""`osler finetune`: an encoder and tasks to a bundle of heads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osler.cli.common import DryRunOption, ForceOption, OutOption, RecipeOption, SetOption, perform


def finetune(
    tasks: Annotated[list[Path] | None, typer.Argument(help="Task folders (osler tasks prepare).")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="An encoder or bundle folder, or a hub name.")
    ] = None,
    out: OutOption = Path("runs/bundle"),
    teacher: Annotated[
        Path | None, typer.Option("--teacher", help="A fine-tuned bundle whose soft labels to learn from too.")
    ] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", help="Passes over the largest task.")] = None,
    lr: Annotated[float | None, typer.Option("--lr", help="Peak learning rate.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of weights, order and dropout.")] = None,
    recipe: RecipeOption = None,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Teach one encoder one task or many."""
    from osler.stages.finetune.config import FinetuneRecipe
    from osler.stages.finetune.run import plan, run

    options = {
        "tasks": tasks or None,
        "model": model,
        "teacher.bundle": teacher,
        "epochs": epochs,
        "train.lr": lr,
        "train.seed": seed,
    }
    perform(FinetuneRecipe, plan, run, recipe=recipe, sets=sets, options=options, out=out, force=force, dry_run=dry_run)
