"""`osler evaluate`: a bundle on a split of a task, or of several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osler.cli.common import DryRunOption, ForceOption, OutOption, RecipeOption, SetOption, perform
from osler.cli.tasks import task_folders
from osler.core.errors import RecipeError


def evaluate(
    bundle: Annotated[Path | None, typer.Argument(help="A bundle folder.")] = None,
    tasks: Annotated[
        list[Path] | None,
        typer.Option("--task", help="A task folder or name; several go to folders of their own in --out."),
    ] = None,
    split: Annotated[str | None, typer.Option("--split", help="Which split; test by default.")] = None,
    head: Annotated[
        str | None, typer.Option("--head", help="Which head; the one named like the task by default.")
    ] = None,
    protocol: Annotated[
        str | None, typer.Option("--protocol", help="Score under another protocol of the task.")
    ] = None,
    errors: Annotated[
        bool, typer.Option("--errors", help="Write the errors too, with a page that holds the text of documents.")
    ] = False,
    documents: Annotated[
        int | None, typer.Option("--documents", min=1, help="With --errors: the most documents on the page (200).")
    ] = None,
    out: OutOption = Path("runs/evaluation"),
    recipe: RecipeOption = None,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Score a bundle: predictions with offsets and scores, metrics under a named protocol, errors on request."""
    from osler.stages.evaluate.run import EvaluateRecipe, plan, run

    for task, folder in _folders(task_folders(tasks) or [], out):
        options = {
            "bundle": bundle,
            "task": task,
            "split": split,
            "head": head,
            "protocol": protocol,
            "errors": errors or None,
            "error_documents": documents,
        }
        made = perform(
            EvaluateRecipe,
            plan,
            run,
            recipe=recipe,
            sets=sets,
            options=options,
            out=folder,
            force=force,
            dry_run=dry_run,
        )
        if made is not None and (made.path / "errors.html").is_file():
            from osler.core.console import console

            console().print("  errors.html holds the text of documents: treat it as you treat them", style="dim")


def _folders(tasks: list[Path], out: Path) -> list[tuple[Path | None, Path]]:
    """Each task with the folder to make: `out` itself for one task, a folder in it for each of several."""
    if len(tasks) < 2:
        return [(tasks[0] if tasks else None, out)]
    names = [task.resolve().name for task in tasks]
    if len(set(names)) < len(names):
        raise RecipeError(
            "two of the tasks have the same folder name",
            where="--task",
            fix="Evaluate them one by one, each with --out",
        )
    return [(task, out / name) for task, name in zip(tasks, names, strict=True)]
