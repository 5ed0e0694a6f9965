"""`osler convert-model`: from a published checkpoint to an encoder that every command can open."""

from __future__ import annotations

import typer

from osler.cli.common import Invocation, recipe_command
from osler.stages.pretrain.config import ConvertModelRecipe

app = typer.Typer(add_completion=False)


@app.command()
@recipe_command(
    ConvertModelRecipe,
    out="runs/encoder",
    argument="folder",
    options={"cased": "--cased/--uncased", "allow_pickle": "--allow-pickle"},
)
def convert_model(call: Invocation) -> None:
    """Convert a published checkpoint (pytorch_model.bin, vocab.txt) into an encoder, and verify it."""
    from osler.stages.pretrain.convert_model import plan, run

    call.perform(plan, run)
