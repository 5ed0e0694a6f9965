"""`osler tasks new`: a card for your own data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from osler.cli.common import DryRunOption, ForceOption, RecipeOption, SetOption, announce, resolve

if TYPE_CHECKING:
    from osler.stages.prepare.discover import Discovery


def new(
    name: Annotated[str | None, typer.Argument(help="A name for the task: small letters, digits and hyphens.")] = None,
    source: Annotated[Path | None, typer.Option("--from", help="The folder, file or archive with your data.")] = None,
    format: Annotated[
        str | None, typer.Option("--format", help="brat, conll, bioc, jsonl, csv …; seen from the files if left out.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="tagging, relation, …: where the data would serve several.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The card to write; NAME.toml if left out.")] = None,
    recipe: RecipeOption = None,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Write a card for your own data: labels, counts and splits are discovered, and you edit the rest."""
    from osler.core.errors import OutputError
    from osler.core.files import write_atomic
    from osler.stages.prepare.discover import DiscoverRecipe, discover

    options = {"name": name, "source": source, "format": format, "kind": kind}
    resolved = resolve(DiscoverRecipe, recipe, sets, options)
    assert isinstance(resolved, DiscoverRecipe)
    path = out or Path(f"{resolved.name}.toml")
    if path.suffix != ".toml":
        raise OutputError("a card is a .toml file", where=path, fix="Give --out a name that ends in .toml")
    if path.exists() and not force:
        raise OutputError("something is there", where=path, fix="Choose another --out, or replace it with --force")
    announce([f"look at {resolved.source} and write the card {path}"], dry_run=dry_run)
    if dry_run:
        return
    found = discover(resolved)
    write_atomic(path, found.text)
    _say(found, resolved.source, path)
    typer.echo(os.path.relpath(path))


def _say(found: Discovery, source: Path, path: Path) -> None:
    from rich.table import Column, Table

    from osler.core.console import console

    card, plan = found.card, found.plan
    screen = console()
    records = "pairs of texts" if card.record == "pair" else "documents"
    labels = f", {len(card.labels)} labels" if card.labels else ""
    screen.print(f"[bold green]✓[/] {card.kind} task over {records} in {card.source.format}{labels}")
    table = Table("split", Column("from", no_wrap=True), box=None, header_style="bold", pad_edge=False)
    numbers = [key for key, value in found.counts["train"].items() if isinstance(value, int)]
    for number in numbers:
        table.add_column(number, justify="right")
    for split, counts in found.counts.items():
        where = "carved out of train" if split in plan.carved else ", ".join(plan.files[split][:3])
        if split not in plan.carved and len(plan.files[split]) > 3:
            where += f" and {len(plan.files[split]) - 3} more"
        table.add_row(split, where, *(f"{counts.get(number, 0):,}" for number in numbers))
    screen.print(table)
    guess = found.survey.language.guess()
    screen.print(f"  language {card.language}: a guess ({guess})", style="dim", markup=False)
    others = [kind.value for kind in found.survey.possible() if kind is not card.kind]
    if others:
        screen.print(f"  the data would also make: {', '.join(others)} (--kind)", style="dim", markup=False)
    if plan.left:
        left = f"{len(plan.left)} file(s) lie in no split and are not read, the first: {plan.left[0]}"
        screen.print(f"[bold yellow]![/] {left}")
    for split, problems in found.problems.items():
        listed = ", ".join(f"{count:,} {kind}" for kind, count in problems.items())
        screen.print(f"[bold yellow]![/] defects in {split}, stated on the card under known_problems: {listed}")
    screen.print(f"  next: osler tasks prepare {path} --from {source} --out task", style="dim", markup=False)
