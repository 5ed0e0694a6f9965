"""`osler evaluate`: score a bundle on one or more tasks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from osler.cli.common import Invocation, announce, recipe_command
from osler.core.console import console
from osler.core.errors import RecipeError
from osler.stages.evaluate.config import EvaluateRecipe

app = typer.Typer(add_completion=False)


@app.command()
@recipe_command(
    EvaluateRecipe,
    out="runs/evaluation",
    argument="bundle",
    options={
        "split": "",
        "head": "",
        "protocol": "",
        "label_map": "--label",
        "seen": "",
        "seen_in": "",
        "errors": "",
        "error_documents": "--documents",
        "device": "",
    },
)
def evaluate(
    call: Invocation,
    tasks: Annotated[
        list[Path] | None,
        typer.Option("--task", help="A task folder or name. Repeat for several; each gets its own folder in --out."),
    ] = None,
) -> None:
    """Score a bundle on tasks: predictions with offsets and scores, metrics under a named protocol and, if asked for, errors."""
    from osler.stages.evaluate.run import plan, run
    from osler.stages.prepare.run import task_folders

    call.flags["task"] = "--task"
    unprepared: list[str] = []

    def show(lines: Sequence[str]) -> None:
        announce(lines, dry_run=False)
        unprepared.extend(lines)

    folders: list[Path | None] = [*task_folders(tasks, dry_run=call.dry_run, show=show)] if tasks else [None]
    names = [folder.resolve().name for folder in folders if folder]
    if len(set(names)) < len(names):
        raise RecipeError(
            "two of the tasks have the same folder name",
            where="--task",
            fix="Evaluate them one by one, each with --out",
        )
    if unprepared and call.dry_run:
        announce(["then evaluate on them; a dry run shows how once they are prepared"], dry_run=True)
        return
    for folder in folders:
        call.options["task"] = folder
        out = call.out / folder.resolve().name if folder and len(folders) > 1 else call.out
        made = call.perform(partial(plan, dry_run=call.dry_run, force=call.force), run, out=out)
        if made is not None and (made.path / "errors.html").is_file():
            console().print("  errors.html contains document text: protect it like the documents", style="dim")
