"""What a run will do and cost, for a person."""

from __future__ import annotations

from pathlib import Path

from osler.stages.pretrain.config import PretrainRecipe


def plan(recipe: PretrainRecipe, out: Path) -> list[str]:
    """The run in a few lines."""
    start = (
        f"continue from {recipe.start_from}"
        if recipe.start_from
        else f"a new {recipe.preset} encoder from random weights"
    )
    steps = recipe.train.steps or 0
    seen = steps * recipe.accumulate * recipe.batch_tokens
    return [
        f"pretrain {start} on {recipe.corpus} with the vocabulary of {recipe.tokenizer}",
        f"{steps:,} updates of {recipe.accumulate} x {recipe.batch_tokens:,} tokens = {seen:,} tokens, context {recipe.max_length}",
        f"masking {recipe.masking.rate:.0%} (validation always 15%), peak rate {recipe.train.lr:g}, {recipe.train.schedule} schedule",
        f"write it to {out}",
    ]
