"""`osler corrections`: make tasks from notes corrected in the web page of `osler serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osler.cli.common import DryRunOption, ForceOption, OutOption, announce, finish

app = typer.Typer(add_completion=False)


@app.command()
def corrections(
    folder: Annotated[
        Path, typer.Argument(metavar="CORRECTIONS", help="The folder that osler serve --corrections writes to.")
    ],
    out: OutOption = Path("corrected"),
    annotator: Annotated[
        list[str] | None, typer.Option(help="Only the corrections of this person. Repeat for several.")
    ] = None,
    head: Annotated[list[str] | None, typer.Option(help="Only this head. Repeat for several.")] = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Turn corrected notes into one task folder per annotator and head, ready for osler finetune."""
    from osler.stages.serve.corrections import CorrectionsRecipe, plan, run

    recipe = CorrectionsRecipe(corrections=folder, annotators=tuple(annotator or ()), heads=tuple(head or ()))
    announce(plan(recipe, out), dry_run=dry_run)
    if not dry_run:
        for artifact in run(recipe, out, force=force):
            finish(artifact)
