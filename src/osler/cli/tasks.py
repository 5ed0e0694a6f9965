"""`osler tasks`: what tasks there are, and their data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osler.cli.common import DryRunOption, ForceOption, OutOption, RecipeOption, SetOption, perform

app = typer.Typer(help="The tasks a model can be taught, and their data.", no_args_is_help=True)


@app.command("list")
def list_tasks(
    language: Annotated[str | None, typer.Option("--language", help="Only tasks in this language: en, es, fr.")] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="Only tagging, relation, classification, multilabel or regression.")
    ] = None,
) -> None:
    """List the tasks osler knows."""
    from rich.console import Console
    from rich.table import Table

    from osler.tasks.catalogue import all_cards

    table = Table("task", "kind", "language", "labels", "protocols", "what it is", box=None, header_style="bold")
    for card in all_cards():
        if (language is None or card.language == language) and (kind is None or card.kind == kind):
            protocols = ", ".join(card.protocols)
            table.add_row(card.name, card.kind, card.language, str(len(card.labels) or "-"), protocols, card.title)
    Console(soft_wrap=True).print(table)


@app.command("info")
def info(task: Annotated[str, typer.Argument(help="A task name, or the path of a card.")]) -> None:
    """Show the card of a task."""
    import tomli_w

    from osler.tasks.catalogue import load_card

    typer.echo(tomli_w.dumps(load_card(task).resolved()).rstrip())


@app.command("prepare")
def prepare(
    task: Annotated[str | None, typer.Argument(help="A task name, or the path of a card.")] = None,
    source: Annotated[
        Path | None, typer.Option("--from", help="The folder or archive with the official files.")
    ] = None,
    out: OutOption = Path("runs/task"),
    recipe: RecipeOption = None,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Read a task's data, check it and write a task folder."""
    from osler.stages.prepare.config import PrepareRecipe
    from osler.stages.prepare.run import plan, run

    options = {"task": task, "source": source}
    perform(PrepareRecipe, plan, run, recipe=recipe, sets=sets, options=options, out=out, force=force, dry_run=dry_run)
