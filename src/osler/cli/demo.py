"""`osler demo`: the whole flow on embedded data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osler.cli.common import DryRunOption, ForceOption, SetOption, announce


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for everything the demo makes.")] = Path("demo"),
    fast: Annotated[bool, typer.Option("--fast", help="Less of everything: under a minute.")] = False,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Run all six stages on notes the synthetic clinic writes, and make a report."""
    from osler.cli.demo_flow import DemoFlow, DemoRecipe
    from osler.core.config import load_recipe
    from osler.core.files import remove_tree
    from osler.core.recipes import shipped_recipe

    recipe = load_recipe(DemoRecipe, shipped_recipe("demo/fast" if fast else "demo/full"), sets or ())
    flow = DemoFlow(recipe, out / ("fast" if fast else "full"))
    announce(flow.plan(), dry_run=dry_run)
    if dry_run:
        return
    if force:
        remove_tree(flow.out)
    flow.run()
