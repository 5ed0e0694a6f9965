"""`osler study pairwise`: every pair of tasks learned together, each task against itself learned alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from osler.cli.common import DryRunOption, ForceOption, OutOption, SetOption

if TYPE_CHECKING:
    from osler.stages.study.config import StudyRecipe


def in_pairs(recipe: StudyRecipe) -> StudyRecipe:
    """The recipe with each task alone and in a pair with every other, and nothing else."""
    from osler.core.errors import RecipeError

    if len(recipe.tasks) < 2:
        raise RecipeError("pairs need at least two tasks", fix="Name more tasks in the recipe")
    return recipe.changed(modes=("single", "pairs"), fractions=())


def pairwise_study(
    recipe: Annotated[str, typer.Argument(help="A study recipe: a path, or a shipped one.")],
    out: OutOption = Path("runs/pairwise"),
    workers: Annotated[int | None, typer.Option("--workers", help="Runs at the same time; 0 chooses.")] = None,
    engine: Annotated[str | None, typer.Option("--engine", help="local, or ray for a cluster (RAY_ADDRESS).")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try runs again that failed before.")] = False,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Which task helps which: a matrix, a graph and suggested groups, by a stated rule (pairwise.html, pairwise.json)."""
    from osler.cli.common import announce, finish, resolve
    from osler.cli.runner import LocalRunner
    from osler.stages.study.config import StudyRecipe
    from osler.stages.study.run import plan, run

    whole = resolve(StudyRecipe, recipe, sets, {"workers": workers, "engine": engine})
    assert isinstance(whole, StudyRecipe)
    pairs = in_pairs(whole)
    announce(plan(pairs, out), dry_run=dry_run)
    if not dry_run:
        finish(run(pairs, out, runner=LocalRunner(), force=force, retry_failed=retry_failed))
