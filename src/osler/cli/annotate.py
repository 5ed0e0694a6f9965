"""`osler annotate`: raw text to entities, relations and labels."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from osler.cli.common import Invocation, announce, recipe_command
from osler.core.errors import RecipeError
from osler.stages.serve.annotate import AnnotateRecipe, plan, run, stream

app = typer.Typer(add_completion=False)


@app.command()
@recipe_command(
    AnnotateRecipe,
    out=None,
    argument="files",
    options={"bundle": "--bundle -b", "format": "--format -f", "min_score": "", "heads": "--head", "language": ""},
)
def annotate(call: Invocation) -> None:
    """Annotate raw text with every head of a bundle. Without --out, JSON Lines go to standard output."""
    if call.out != Path():
        call.perform(plan, run)
        return
    recipe = call.resolve()
    if recipe.format != "jsonl":
        raise RecipeError(f"{recipe.format} is a folder of files", fix="Give --out")
    announce(plan(recipe, None), dry_run=call.dry_run)
    if not call.dry_run:
        stream(recipe, sys.stdout)
