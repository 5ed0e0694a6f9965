"""`osler tasks`: what tasks there are, and their data."""

from __future__ import annotations

from typing import Annotated

import typer

from osler.cli import new_task, show_task, synthesize, tasks_check
from osler.cli import prepare as tasks_prepare

app = typer.Typer(help="The tasks a model can be taught, and their data.", no_args_is_help=True)


@app.command("list")
def list_tasks(
    language: Annotated[str | None, typer.Option("--language", help="Only tasks in this language: en, es, fr.")] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="Only tagging, relation, classification, multilabel or regression.")
    ] = None,
    domain: Annotated[str | None, typer.Option("--domain", help="Only clinical or biomedical texts.")] = None,
) -> None:
    """List the tasks osler knows."""
    from rich.console import Console
    from rich.table import Table

    from osler.tasks.card import Kind
    from osler.tasks.catalogue import all_cards

    if kind is not None and kind not in list(Kind):
        raise typer.BadParameter(f"choose one of {', '.join(Kind)}", param_hint="--kind")
    table = Table("task", "kind", "language", "labels", "protocols", "what it is", box=None, header_style="bold")
    for card in all_cards():
        wanted = ((language, card.language), (kind, card.kind), (domain, card.domain))
        if all(asked is None or asked == has for asked, has in wanted):
            others = len(card.protocols) - 1
            protocols = f"{card.protocol} (+{others})" if others else card.protocol
            table.add_row(card.name, card.kind, card.language, str(len(card.labels) or "-"), protocols, card.title)
    Console(soft_wrap=True).print(table)


@app.command("info")
def info(
    task: Annotated[str, typer.Argument(help="A task name, or the path of a card.")],
    toml: Annotated[bool, typer.Option("--toml", help="Print the whole card as TOML, ready to be edited.")] = False,
) -> None:
    """Show a task: its files and how to get them, its labels, counts and protocols."""
    from osler.tasks.catalogue import load_card
    from osler.tasks.describe import describe

    card = load_card(task)
    if toml:
        import tomli_w

        typer.echo(tomli_w.dumps(card.resolved()).rstrip())
    else:
        typer.echo(describe(card))


@app.command("docs", hidden=True)
def docs() -> None:
    """Print the page of all tasks in Markdown, from the cards."""
    from osler.tasks.catalogue import all_cards
    from osler.tasks.describe import page

    typer.echo(page(all_cards()), nl=False)


app.command("prepare")(tasks_prepare.prepare)
app.command("check")(tasks_check.check)
app.command("show")(show_task.show)
app.command("new")(new_task.new)
app.command("synthesize")(synthesize.synthesize)
