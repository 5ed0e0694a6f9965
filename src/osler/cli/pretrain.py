"""`osler pretrain`: a corpus and a vocabulary to an encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osler.cli.common import DryRunOption, ForceOption, OutOption, RecipeOption, SetOption, perform


def pretrain(
    corpus: Annotated[Path | None, typer.Argument(help="A corpus folder.")] = None,
    tokenizer: Annotated[Path | None, typer.Option("--tokenizer", "-t", help="A tokenizer folder.")] = None,
    out: OutOption = Path("runs/encoder"),
    preset: Annotated[
        str | None, typer.Option("--preset", help="Size of a new encoder: tiny, small, compact, base, large, modern.")
    ] = None,
    start_from: Annotated[Path | None, typer.Option("--from", help="A checkpoint to continue from.")] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Updates.")] = None,
    recipe: RecipeOption = None,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Pretrain an encoder on a corpus with the masked language model."""
    from osler.stages.pretrain.config import PretrainRecipe
    from osler.stages.pretrain.plan import plan
    from osler.stages.pretrain.run import run

    options = {
        "corpus": corpus,
        "tokenizer": tokenizer,
        "preset": preset,
        "start_from": start_from,
        "train.steps": steps,
    }
    perform(PretrainRecipe, plan, run, recipe=recipe, sets=sets, options=options, out=out, force=force, dry_run=dry_run)
