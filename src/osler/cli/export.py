"""`osler export`: one head of a bundle in the shape other tools load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osler.cli.common import DryRunOption, ForceOption, OutOption, RecipeOption, SetOption, perform


def export(
    bundle: Annotated[Path | None, typer.Argument(help="A bundle folder.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="The shape: hf.")] = None,
    head: Annotated[str | None, typer.Option("--head", help="Which head, where there are several.")] = None,
    out: OutOption = Path("runs/export"),
    recipe: RecipeOption = None,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Turn one head into a stock Hugging Face folder."""
    from osler.stages.serve.export import ExportRecipe, plan, run

    options = {"bundle": bundle, "to": to, "head": head}
    perform(ExportRecipe, plan, run, recipe=recipe, sets=sets, options=options, out=out, force=force, dry_run=dry_run)
