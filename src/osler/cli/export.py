"""`osler export`: export a bundle for other software, or for machines without torch."""

from __future__ import annotations

import typer

from osler.cli.common import Invocation, recipe_command
from osler.stages.serve.config import ExportRecipe

app = typer.Typer(add_completion=False)


@app.command()
@recipe_command(
    ExportRecipe,
    out="runs/export",
    argument="bundle",
    options={"to": "", "head": "", "tasks": "--task", "weights": "", "max_loss": ""},
)
def export(call: Invocation) -> None:
    """Export one head as a stock Hugging Face model, or all heads as an ONNX graph that runs without torch or a spaCy pipeline."""
    from osler.stages.serve.export import plan, run

    call.perform(plan, run)
