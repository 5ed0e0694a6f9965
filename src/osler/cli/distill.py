"""`osler distill`: distil an encoder into a smaller one. Runs the pretraining stage with a teacher."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from osler.cli.common import Invocation, recipe_command
from osler.cli.pretrain import override_length, resolve_planned
from osler.core.errors import RecipeError
from osler.stages.pretrain.config import PretrainRecipe

app = typer.Typer(add_completion=False)


@app.command()
@recipe_command(
    PretrainRecipe,
    out="runs/student",
    argument="corpus",
    options={
        "distill.teacher": "",
        "tokenizer": "--tokenizer -t",
        "start_from": "--from",
        "preset": "",
        "train.steps": "",
        "train.budget": "",
    },
)
def distill(
    call: Invocation,
    layers: Annotated[
        str | None,
        typer.Option("--layers", help='Start from layers of the teacher: "even", or numbers from 0 such as 0,2,4.'),
    ] = None,
    align: Annotated[bool, typer.Option("--align", help="Also align the last hidden states (weight 1.0).")] = False,
) -> None:
    """Distil an encoder into a smaller one on a corpus. Works like osler pretrain, with a teacher."""
    from osler.stages.pretrain.plan import PlannedRecipe, full_plan, plan
    from osler.stages.pretrain.run import run

    override_length(call)
    call.options["distill.teacher_layers"] = _layer_numbers(layers)
    call.options["distill.cosine"] = 1.0 if align else None
    recipe = resolve_planned(call, PlannedRecipe)
    # Without a teacher, this would silently be plain pretraining.
    if recipe.distill is None:
        raise RecipeError("no teacher is named", fix="Give --teacher DIR, or set distill.teacher in the recipe")
    if "tokenizer" not in recipe.model_fields_set:
        call.options["tokenizer"] = recipe.distill.teacher
    call.perform(partial(full_plan, force=call.force) if call.dry_run else plan, run)


def _layer_numbers(text: str | None) -> str | list[int] | None:
    if text is None or text == "even":
        return text
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise RecipeError(
            f"--layers must be 'even' or numbers, got {text!r}", fix="Write --layers even or --layers 0,2,4"
        ) from None
