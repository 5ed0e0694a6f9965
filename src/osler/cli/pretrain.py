"""`osler pretrain` and `osler distill`."""

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
from osler.core.errors import RecipeError


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


def distill(
    corpus: Annotated[Path | None, typer.Argument(help="A corpus folder.")] = None,
    teacher: Annotated[
        Path | None, typer.Option("--teacher", help="The folder of the masked language model to learn from.")
    ] = None,
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", "-t", help="A tokenizer folder; the teacher's own when left out.")
    ] = None,
    out: OutOption = Path("runs/student"),
    start_from: Annotated[Path | None, typer.Option("--from", help="A pretrained student to continue.")] = None,
    layers: Annotated[
        str | None,
        typer.Option("--layers", help='Start from layers of the teacher: "even", or numbers from 0 such as 0,2,4.'),
    ] = None,
    preset: Annotated[str | None, typer.Option("--preset", help="Size of a student with random weights.")] = None,
    align: Annotated[
        bool, typer.Option("--align", help="Draw the last hidden states together too (weight 1.0).")
    ] = False,
    steps: StepsOption = None,
    budget: BudgetOption = None,
    recipe: RecipeOption = None,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Distil an encoder into a smaller one on a corpus: osler pretrain with a teacher."""
    from osler.stages.pretrain.config import PretrainRecipe
    from osler.stages.pretrain.plan import PlannedRecipe, full_plan, plan
    from osler.stages.pretrain.run import run

    def plan_with_teacher(resolved: PretrainRecipe, target: Path) -> list[str]:
        # Without one it would be plain pretraining under the wrong name.
        if resolved.distill is None:
            raise RecipeError("no teacher is named", fix="Give --teacher DIR, or set distill.teacher in the recipe")
        return full_plan(resolved, target) if dry_run else plan(resolved, target)

    options = {
        "corpus": corpus,
        "tokenizer": tokenizer or (None if _names_tokenizer(recipe) else teacher),
        "preset": preset,
        "start_from": start_from,
        **until(steps, budget),
        "distill.teacher": teacher,
        "distill.teacher_layers": _layers(layers),
        "distill.cosine": 1.0 if align else None,
    }
    perform(
        PlannedRecipe if dry_run else PretrainRecipe,
        plan_with_teacher,
        run,
        recipe=recipe,
        sets=sets,
        options=options,
        out=out,
        force=force,
        dry_run=dry_run,
    )


def _names_tokenizer(recipe: str | None) -> bool:
    from osler.core.config import find_recipe, read_toml

    return recipe is not None and "tokenizer" in read_toml(find_recipe(recipe))


def _layers(text: str | None) -> str | list[int] | None:
    if text is None or text == "even":
        return text
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise RecipeError(
            f"--layers {text!r} is neither 'even' nor numbers", fix="Write --layers even or --layers 0,2,4"
        ) from None
