"""`osler convert`: convert annotation files between formats."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from osler.cli.common import DryRunOption, ForceOption, RecipeOption, SetOption, announce, resolve

if TYPE_CHECKING:
    from osler.stages.prepare.convert import Conversion

app = typer.Typer()


@app.command()
def convert(
    input: Annotated[Path | None, typer.Argument(help="A file, a folder or an archive.")] = None,
    from_format: Annotated[str | None, typer.Option("--from", help="Format of the input; detected by default.")] = None,
    to_format: Annotated[str | None, typer.Option("--to", help="The format to write.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file or folder to write, as the format requires.")
    ] = None,
    tolerant: Annotated[
        bool, typer.Option("--tolerant", help="Count defects of the input and continue, instead of stopping.")
    ] = False,
    list_formats: Annotated[bool, typer.Option("--list", help="List the formats and what each can hold.")] = False,
    recipe: RecipeOption = None,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Convert any format to any other, and report what the target cannot hold."""
    from osler.core.errors import RecipeError
    from osler.stages.prepare.convert import ConvertRecipe, plan, run

    if list_formats:
        _list()
        return
    options = {"input": input, "from_format": from_format, "to_format": to_format, "tolerant": tolerant or None}
    resolved = resolve(ConvertRecipe, recipe, sets, options)
    assert isinstance(resolved, ConvertRecipe)
    if out is None:
        raise RecipeError("--out is missing", fix="Give the file or folder to write with --out")
    announce(plan(resolved, out), dry_run=dry_run)
    if not dry_run:
        _print_result(run(resolved, out, force=force), resolved.to_format)


def _print_result(done: Conversion, target: str) -> None:
    from osler.core.console import console

    numbers = " · ".join(f"{name} {count:,}" for name, count in done.counts.items() if count)
    console().print(f"[bold green]✓[/] converted: {numbers}")
    for title, found in ((f"{target} cannot hold", done.lost), ("defects in the input", done.defects)):
        if found:
            listed = ", ".join(f"{count:,} {reason}" for reason, count in found.items())
            console().print(f"[bold yellow]![/] {title}: {listed}")
    if done.report is not None:
        console().print(f"  written to {_shown(done.report)}", style="dim", markup=False)
    else:
        console().print("  nothing was lost", style="dim")
    # The path goes to standard output, so that a script can take it.
    typer.echo(_shown(done.path))


def _shown(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def _list() -> None:
    from rich.console import Console
    from rich.table import Table

    from osler.stages.prepare.convert import capabilities

    table = Table("format", "description", "written as", "holds", box=None, header_style="bold", pad_edge=False)
    for found in capabilities():
        written = found.layout if found.writable else "read only"
        table.add_row(found.name, found.description, written, ", ".join(found.holds))
    Console().print(table)
