"""`osler export`: one head of a bundle as a stock Hugging Face model."""

from __future__ import annotations

import typer

from osler.cli.common import Invocation, recipe_command
from osler.stages.serve.export import ExportRecipe, plan, run

app = typer.Typer(add_completion=False)


@app.command()
@recipe_command(ExportRecipe, out="runs/export", argument="bundle", options={"to": "", "head": ""})
def export(call: Invocation) -> None:
    """Export one head of a bundle as a stock Hugging Face model folder."""
    call.perform(plan, run)
