"""`osler corpus`: raw text to a clean corpus."""

from __future__ import annotations

import typer

from osler.cli.common import Invocation, recipe_command
from osler.stages.corpus.config import CorpusRecipe

app = typer.Typer(help="Raw text to a clean corpus.", no_args_is_help=True, add_completion=False)


@app.callback()
def _group() -> None: ...


@app.command("build")
@recipe_command(CorpusRecipe, out="runs/corpus", argument="sources")
def build(call: Invocation) -> None:
    """Read, repair, filter and deduplicate text into a corpus."""
    from osler.stages.corpus.run import plan, run

    call.perform(plan, run)
