"""`osler tasks synthesize`: a fake official distribution of an access-controlled task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osler.cli.common import DryRunOption, ForceOption, OutOption, RecipeOption, SetOption, perform


def synthesize(
    task: Annotated[str | None, typer.Argument(help="An access-controlled task, such as i2b2-2010.")] = None,
    n: Annotated[
        int | None, typer.Option("--n", help="How many records in training (50); other splits follow.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Another seed, other records (0).")] = None,
    archives: Annotated[
        bool | None, typer.Option("--archives/--folders", help="Packed as officially shipped, or in plain folders.")
    ] = None,
    out: OutOption = Path("runs/distribution"),
    recipe: RecipeOption = None,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Make up the official files of a task whose real ones need an agreement."""
    from osler.clinic.synthesize import SynthesizeRecipe, plan, run

    options = {"task": task, "n": n, "seed": seed, "archives": archives}
    perform(
        SynthesizeRecipe, plan, run, recipe=recipe, sets=sets, options=options, out=out, force=force, dry_run=dry_run
    )
