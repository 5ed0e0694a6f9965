"""`osler similar` and `osler infer`: compare pairs of texts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from osler.cli.annotate import PARTIAL
from osler.cli.common import Invocation, announce, recipe_command
from osler.core.errors import RecipeError
from osler.stages.serve.config import PairsRecipe

if TYPE_CHECKING:
    from osler.stages.serve.inputs import Skipped
    from osler.stages.serve.pairs import Question

app = typer.Typer(add_completion=False)

pairs_command: Callable[[Callable[..., None]], Callable[..., None]] = recipe_command(
    PairsRecipe,
    out=None,
    argument="files",
    options={
        "bundle": "--bundle -b",
        "head": "",
        "language": "",
        "format": "--format -f",
        "text_columns": "--text-column",
        "id_column": "",
        "encoding": "",
        "device": "",
    },
)


@app.command()
@pairs_command
def similar(call: Invocation) -> None:
    """Score how similar the two texts of each pair are. Their order does not matter.

    Without --out, print one line per pair to standard output. Exit code 0: every pair was compared. 2: nothing was done.
    3: some lines could not be read and were skipped.
    """
    answer(call, "similar")


def answer(call: Invocation, question: Question) -> None:
    """Compare the pairs of a call and write one line for each."""
    from osler.core.files import atomic
    from osler.stages.serve.annotate import report_skipped
    from osler.stages.serve.pairs import compare, plan

    if call.options["files"] is None and call.recipe is None:
        if sys.stdin.isatty():
            raise RecipeError("no pairs are named", fix="Name files, or pipe JSON Lines in")
        call.options["files"] = ["-"]
    recipe, out = call.resolve(), call.out if call.out != Path() else None
    announce(plan(recipe, question, out, force=call.force), dry_run=call.dry_run)
    if call.dry_run:
        return
    skipped: list[Skipped] = []
    lines = compare(recipe, question, out, skipped)
    if out is None:
        sys.stdout.writelines(lines)
    else:
        with atomic(out) as handle:
            handle.writelines(line.encode() for line in lines)
        typer.echo(str(out))
    report_skipped(skipped)
    if skipped:
        raise typer.Exit(PARTIAL)
