"""`osler finetune`: an encoder and tasks to a bundle of heads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osler.cli.common import DryRunOption, ForceOption, OutOption, RecipeOption, SetOption, perform
from osler.cli.tasks import task_folders


def finetune(
    tasks: Annotated[list[Path] | None, typer.Argument(help="Task folders, or names of tasks.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="An encoder or bundle folder, or a hub name.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="Official files, for tasks given by name that are not prepared yet.")
    ] = None,
    out: OutOption = Path("runs/bundle"),
    teacher: Annotated[
        Path | None, typer.Option("--teacher", help="A fine-tuned bundle whose soft labels to learn from too.")
    ] = None,
    add_to: Annotated[
        Path | None,
        typer.Option(
            "--add-to", help="Add the tasks to this bundle; what its heads say stays the same to the last bit."
        ),
    ] = None,
    rehearse: Annotated[
        list[Path] | None,
        typer.Option(
            "--rehearse", help="With --add-to: a task of the old heads to mix in, while all learns on. Repeat."
        ),
    ] = None,
    mlm: Annotated[
        Path | None, typer.Option("--mlm", help="A corpus whose raw text is one more task (masked language modelling).")
    ] = None,
    mixing: Annotated[
        str | None,
        typer.Option("--mixing", help="How tasks take turns: round-robin, proportional, temperature or annealed."),
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
        "tasks": task_folders(tasks, data, dry_run=dry_run),
        "model": model,
        "teacher.bundle": teacher,
        "add_to": add_to,
        "rehearse": task_folders(rehearse, data, dry_run=dry_run),
        "mlm.corpus": mlm,
        "mixing.order": mixing,
        "epochs": epochs,
        "train.lr": lr,
        "train.seed": seed,
    }
    perform(FinetuneRecipe, plan, run, recipe=recipe, sets=sets, options=options, out=out, force=force, dry_run=dry_run)
