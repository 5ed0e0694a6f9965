"""`osler convert`: convert annotation files between formats."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from osler.cli.common import Invocation, announce, recipe_command
from osler.core.console import console
from osler.core.errors import RecipeError
from osler.formats.base import DEFECTS
from osler.stages.prepare.config import ConvertRecipe
from osler.stages.prepare.convert import Conversion, capabilities, plan, run

app = typer.Typer(add_completion=False)


@app.command()
@recipe_command(
    ConvertRecipe,
    out=None,
    argument="input",
    options={"from_format": "--from", "to_format": "--to", "tolerant": ""},
)
def convert(
    call: Invocation,
    list_formats: Annotated[bool, typer.Option("--list", help="List the formats and what each can hold.")] = False,
) -> None:
    """Convert annotations from one format to another, and report what the target format cannot hold."""
    if list_formats:
        _list()
        return
    recipe = call.resolve()
    if call.out == Path():
        raise RecipeError("--out is missing", fix="Give the file or folder to write with --out")
    announce(plan(recipe, call.out), dry_run=call.dry_run)
    if not call.dry_run:
        _print_result(run(recipe, call.out, force=call.force), recipe.to_format)


def _print_result(done: Conversion, target: str) -> None:
    numbers = " · ".join(_number(name, count, done.written.get(name)) for name, count in done.read.items())
    console().print(f"[bold green]✓[/] converted: {numbers}")
    if not done.written:
        console().print("[bold yellow]![/] these are counts of the input: osler cannot read the result back")
    if done.lost:
        listed = ", ".join(f"{count:,} {reason}" for reason, count in done.lost.items())
        console().print(f"[bold yellow]![/] {target} cannot hold: {listed}")
    if done.defects:
        total = sum(defect.count for defect in done.defects.values())
        console().print(f"[bold yellow]![/] defects in the input, passed over with --tolerant: {total:,}")
    for kind, defect in done.defects.items():
        kept = DEFECTS[kind][1]
        console().print(f"  {defect.count:,} {kind}, first at {defect.first}; kept: {kept}", markup=False)
    if done.report is not None:
        console().print(f"  details in {_shown(done.report)}", style="dim", markup=False)
    else:
        console().print("  nothing was lost", style="dim")
    # Only the path goes to standard output, so that scripts can read it.
    typer.echo(_shown(done.path))


def _number(name: str, read: int, written: int | None) -> str:
    if written is None or written == read:
        return f"{name} {read:,}"
    if written < read:
        return f"{name} {written:,} of {read:,} ({read - written:,} lost)"
    return f"{name} {written:,} ({read:,} read)"


def _shown(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def _list() -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("format", "description", "written as", "holds", box=None, header_style="bold", pad_edge=False)
    for found in capabilities():
        written = found.layout if found.writable else "read only"
        table.add_row(found.name, found.description, written, ", ".join(found.holds))
    Console().print(table)
