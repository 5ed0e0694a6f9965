"""`osler annotate`: from raw text to entities, relations and labels."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from osler.cli.common import Invocation, announce, recipe_command
from osler.core.errors import RecipeError
from osler.stages.serve.config import AnnotateRecipe

PARTIAL = 3
"""Exit code if some inputs could not be read but the others were annotated."""

app = typer.Typer(add_completion=False)


@app.command()
@recipe_command(
    AnnotateRecipe,
    out=None,
    argument="files",
    options={
        "bundle": "--bundle -b",
        "to": "--to -t --format -f",
        "min_score": "",
        "thresholds": "--threshold",
        "target_recall": "",
        "heads": "--head",
        "language": "",
        "attributes": "",
        "text_columns": "--text-column",
        "id_column": "",
        "encoding": "",
        "device": "",
        "precision": "",
    },
)
def annotate(call: Invocation) -> None:
    """Annotate raw text with the heads of a bundle for its language. Without --out, print JSON Lines to standard output.

    Exit code 0: everything was annotated. 2: nothing was done. 3: some files or lines could not be read and were skipped.
    """
    from osler.stages.serve.annotate import (
        plan,
        report_languages,
        report_loss,
        report_skipped,
        run,
        skipped,
        stream,
    )

    if call.options["files"] is None and call.recipe is None:
        if sys.stdin.isatty():
            raise RecipeError(
                "no notes are named", fix="Name files or folders, or pipe text in: cat note.txt | osler annotate"
            )
        call.options["files"] = ["-"]
    if call.out != Path():
        artifact = call.perform(plan, run)
        left = skipped(artifact) if artifact else []
        if artifact:
            report_languages(artifact.counts.get("read_as", {}))
            report_loss(artifact)
    else:
        recipe = call.resolve()
        if recipe.to != "jsonl":
            raise RecipeError(f"{recipe.to} is written to a folder", fix="Give --out")
        announce(plan(recipe, None), dry_run=call.dry_run)
        left = [] if call.dry_run else stream(recipe, sys.stdout)
    report_skipped(left)
    if left:
        raise typer.Exit(PARTIAL)
