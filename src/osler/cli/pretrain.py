"""`osler pretrain`: from a corpus and a tokenizer to an encoder."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from osler.cli.common import Invocation, recipe_command
from osler.core.config import LEFT_OUT, Recipe
from osler.stages.pretrain.config import PretrainRecipe

app = typer.Typer(add_completion=False)


@app.command()
@recipe_command(
    PretrainRecipe,
    out="runs/encoder",
    argument="corpus",
    options={
        "tokenizer": "--tokenizer -t",
        "preset": "",
        "start_from": "--from",
        "train.steps": "",
        "train.budget": "",
    },
)
def pretrain(
    call: Invocation,
    probe: Annotated[bool, typer.Option(help="With --dry-run: train for ten seconds to measure the speed.")] = True,
    gpus: Annotated[
        str, typer.Option("--gpus", help="With --dry-run: numbers of GPUs to estimate for.")
    ] = "1,2,4,8,16",
    vocab_size: Annotated[
        int | None,
        typer.Option("--vocab-size", min=10, help="With --dry-run: vocabulary size where there is no tokenizer yet."),
    ] = None,
) -> None:
    """Pretrain an encoder on a corpus with masked language modelling."""
    from osler.stages.pretrain.plan import PlannedRecipe, full_plan, numbers_of_gpus, plan
    from osler.stages.pretrain.run import run

    override_length(call)
    numbers = numbers_of_gpus(gpus)
    if call.dry_run:
        resolve_planned(call, PlannedRecipe)
        seconds = 10.0 if probe else 0.0
        plan = partial(full_plan, gpus=numbers, seconds=seconds, vocab_size=vocab_size, force=call.force)
    call.perform(plan, run)


def resolve_planned(call: Invocation, kind: type[Recipe]) -> Any:
    """Resolve the recipe as `kind`, which does not require a corpus. A dry run without a corpus keeps this kind."""
    needed, call.kind = call.kind, kind
    recipe = call.resolve()
    if not call.dry_run or "corpus" in recipe.model_fields_set:
        call.kind = needed
    return recipe


def override_length(call: Invocation) -> None:
    """Let --steps remove the recipe's budget, and --budget its steps."""
    steps, budget = call.options["train.steps"], call.options["train.budget"]
    if steps is not None and budget is None:
        call.options["train.budget"] = LEFT_OUT
    elif budget is not None and steps is None:
        call.options["train.steps"] = LEFT_OUT
