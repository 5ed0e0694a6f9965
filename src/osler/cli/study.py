"""`osler study`: many models, tasks and seeds to one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osler.cli.common import DryRunOption, ForceOption, OutOption, SetOption, perform

app = typer.Typer(help="Models x tasks x seeds to a table with honest uncertainty.", no_args_is_help=True)


@app.callback()
def _group() -> None: ...


@app.command("run")
def run_study(
    recipe: Annotated[str, typer.Argument(help="A study recipe: a path, or a shipped one.")],
    out: OutOption = Path("runs/study"),
    workers: Annotated[int | None, typer.Option("--workers", help="Runs at the same time.")] = None,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Do every run that is not done yet, then write table, plots and page."""
    from functools import partial

    from osler.cli.runner import LocalRunner
    from osler.stages.study.config import StudyRecipe
    from osler.stages.study.run import plan, run

    do = partial(run, runner=LocalRunner())
    perform(
        StudyRecipe,
        plan,
        do,
        recipe=recipe,
        sets=sets,
        options={"workers": workers},
        out=out,
        force=force,
        dry_run=dry_run,
    )
