"""`osler pretrain`: a corpus and a vocabulary to an encoder."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from osler.cli.common import (
    BudgetOption,
    DryRunOption,
    ForceOption,
    OutOption,
    RecipeOption,
    SetOption,
    StepsOption,
    perform,
    until,
)


def pretrain(
    corpus: Annotated[Path | None, typer.Argument(help="A corpus folder.")] = None,
    tokenizer: Annotated[Path | None, typer.Option("--tokenizer", "-t", help="A tokenizer folder.")] = None,
    out: OutOption = Path("runs/encoder"),
    preset: Annotated[
        str | None, typer.Option("--preset", help="Size of a new encoder: tiny, small, compact, roberta-base, …")
    ] = None,
    start_from: Annotated[Path | None, typer.Option("--from", help="A checkpoint to continue from.")] = None,
    steps: StepsOption = None,
    budget: BudgetOption = None,
    recipe: RecipeOption = None,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
    probe: Annotated[bool, typer.Option(help="With --dry-run: train for ten seconds to measure the speed.")] = True,
    gpus: Annotated[
        str, typer.Option("--gpus", help="With --dry-run: numbers of GPUs to estimate for.")
    ] = "1,2,4,8,16",
    vocab_size: Annotated[
        int | None,
        typer.Option("--vocab-size", min=10, help="With --dry-run: entries, where there is no tokenizer yet."),
    ] = None,
) -> None:
    """Pretrain an encoder on a corpus with the masked language model."""
    from osler.stages.pretrain.config import PretrainRecipe
    from osler.stages.pretrain.plan import PlannedRecipe, full_plan, numbers_of_gpus, plan
    from osler.stages.pretrain.run import run

    options = {
        "corpus": corpus,
        "tokenizer": tokenizer,
        "preset": preset,
        "start_from": start_from,
        **until(steps, budget),
    }
    full = partial(full_plan, gpus=numbers_of_gpus(gpus), seconds=10.0 if probe else 0.0, vocab_size=vocab_size)
    perform(
        PlannedRecipe if dry_run else PretrainRecipe,
        full if dry_run else plan,
        run,
        recipe=recipe,
        sets=sets,
        options=options,
        out=out,
        force=force,
        dry_run=dry_run,
    )
