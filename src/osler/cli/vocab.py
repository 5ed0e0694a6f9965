"""`osler vocab`: a corpus to a tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osler.cli.common import DryRunOption, ForceOption, OutOption, RecipeOption, SetOption, perform

app = typer.Typer(help="A corpus to a vocabulary.", no_args_is_help=True)


@app.callback()
def _group() -> None: ...


@app.command("train")
def train(
    corpus: Annotated[Path | None, typer.Argument(help="A corpus folder.")] = None,
    out: OutOption = Path("runs/tokenizer"),
    size: Annotated[int | None, typer.Option("--size", help="How many tokens.")] = None,
    recipe: RecipeOption = None,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Learn a vocabulary from a corpus, as a stock Hugging Face tokenizer folder."""
    from osler.stages.vocab.config import VocabRecipe
    from osler.stages.vocab.run import plan, run

    options = {"corpus": corpus, "size": size}
    perform(VocabRecipe, plan, run, recipe=recipe, sets=sets, options=options, out=out, force=force, dry_run=dry_run)
