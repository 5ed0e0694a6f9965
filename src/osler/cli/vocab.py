"""`osler vocab`: train a tokenizer on a corpus, and compare tokenizers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from osler.cli.common import Invocation, announce, finish, recipe_command
from osler.core.errors import RecipeError
from osler.stages.vocab.config import CompareRecipe, VocabRecipe

if TYPE_CHECKING:
    from osler.stages.vocab.figures import TokenizerComparison

app = typer.Typer(help="A corpus to a tokenizer.", no_args_is_help=True, add_completion=False)
_TERMS_ON_SCREEN = 10


@app.callback()
def _group() -> None: ...


@app.command("train")
@recipe_command(VocabRecipe, out="runs/tokenizer", argument="corpus", options={"size": "", "algorithm": ""})
def train(call: Invocation) -> None:
    """Train a vocabulary on a corpus and save it as a standard Hugging Face tokenizer."""
    from osler.stages.vocab.run import plan, run

    call.perform(partial(plan, check=call.dry_run, force=call.force), run)


@app.command("compare")
@recipe_command(
    CompareRecipe,
    out=None,
    argument="tokenizers",
    options={"corpus": "--on", "terms": "", "sample_documents": "--documents", "min_documents": ""},
)
def compare(call: Invocation) -> None:
    """Compare tokenizers on a corpus. Without --out, print the tables and save nothing."""
    from osler.stages.vocab import compare as stage

    if call.options["corpus"] is None and call.recipe is None and not call.sets:
        raise RecipeError("no corpus is named", where="--on", fix="Give the folder of a corpus: --on CORPUS")
    recipe = call.resolve()
    kept = call.out != Path()
    plan = stage.plan(recipe, call.out if kept else None, check=call.dry_run, force=call.force)
    announce(plan, dry_run=call.dry_run)
    if call.dry_run:
        return
    if not kept:
        _print(stage.measure(recipe))
        return
    artifact = stage.run(recipe, call.out, force=call.force)
    _print(stage.read(artifact))
    finish(artifact)


def _print(found: TokenizerComparison) -> None:
    from rich.console import Console

    from osler.report.terminal import table_rich
    from osler.stages.vocab.view import tables

    console = Console(highlight=False)
    for _, group in tables(found, _TERMS_ON_SCREEN):
        for table in group:
            made = table_rich(table)
            for column in made.columns:
                column.overflow = "fold"  # a truncated name or term is useless
            console.print(made)
