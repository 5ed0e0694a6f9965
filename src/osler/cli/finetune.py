"""`osler finetune`: from an encoder and tasks to a bundle of heads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from osler.cli.common import Invocation, announce, recipe_command
from osler.stages.finetune.config import FinetuneRecipe

app = typer.Typer(add_completion=False)


@app.command()
@recipe_command(
    FinetuneRecipe,
    out="runs/bundle",
    argument="tasks",
    argument_help="Task folders, or names of tasks.",
    options={
        "model": "--model -m",
        "teacher.bundle": "--teacher",
        "add_to": "",
        "rehearse": "",
        "mlm.corpus": "--mlm",
        "mixing.order": "--mixing",
        "epochs": "",
        "train.lr": "",
        "train.seed": "",
        "train.device": "",
    },
)
def finetune(
    call: Invocation,
    data: Annotated[
        Path | None, typer.Option("--data", help="Official files, for tasks given by name that are not prepared yet.")
    ] = None,
) -> None:
    """Fine-tune one encoder on one or more tasks."""
    from osler.nn.folders import load_encoder_config
    from osler.stages.finetune.run import plan, run
    from osler.stages.prepare.run import task_folders

    unprepared: list[str] = []

    def show(lines: Sequence[str]) -> None:
        announce(lines, dry_run=False)
        unprepared.extend(lines)

    for key in ("tasks", "rehearse"):
        if call.options[key]:
            call.options[key] = task_folders(call.options[key], data, dry_run=call.dry_run, show=show)
    if unprepared and call.dry_run:
        load_encoder_config(call.resolve().model)
        announce(["then fine-tune on them; a dry run shows how once they are prepared"], dry_run=True)
        return
    call.perform(
        partial(plan, dry_run=call.dry_run, force=call.force), partial(run, show=partial(announce, dry_run=False))
    )
