"""`osler corpus`: raw text to a clean corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osler.cli.common import DryRunOption, ForceOption, OutOption, RecipeOption, SetOption, perform

app = typer.Typer(help="Raw text to a clean corpus.", no_args_is_help=True)


@app.callback()
def _group() -> None: ...


@app.command("build")
def build(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Text, JSON Lines or Parquet files, folders or patterns.")
    ] = None,
    out: OutOption = Path("runs/corpus"),
    recipe: RecipeOption = None,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Read, repair, filter and deduplicate text into a corpus."""
    from osler.stages.corpus.config import CorpusRecipe
    from osler.stages.corpus.run import plan, run

    options = {"sources": [str(file) for file in files] if files else None}
    perform(CorpusRecipe, plan, run, recipe=recipe, sets=sets, options=options, out=out, force=force, dry_run=dry_run)
