"""`osler study`: many models, tasks and seeds to one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from osler.cli.common import DryRunOption, ForceOption, OutOption, SetOption, announce, finish, perform, resolve

if TYPE_CHECKING:
    from osler.stages.study.recipe import StudyRecipe


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
    from osler.stages.study.recipe import StudyRecipe
    from osler.stages.study.run import plan, run
    from osler.stages.study.runner import LocalRunner

    whole = resolve(StudyRecipe, recipe, sets, {"workers": workers, "engine": engine})
    assert isinstance(whole, StudyRecipe)
    pairs = in_pairs(whole)
    announce(plan(pairs, out), dry_run=dry_run)
    if not dry_run:
        finish(run(pairs, out, runner=LocalRunner(), force=force, retry_failed=retry_failed))


app = typer.Typer(help="Models x tasks x seeds to a table with honest uncertainty.", no_args_is_help=True)

RetryOption = Annotated[bool, typer.Option("--retry-failed", help="Try runs again that failed before.")]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", help="Runs at the same time; 0 chooses by cores and GPU memory.")
]
EngineOption = Annotated[str | None, typer.Option("--engine", help="local, or ray for a cluster (RAY_ADDRESS).")]
StudyArgument = Annotated[str, typer.Argument(help="The --out of a study that was begun, or a study recipe.")]


@app.callback()
def _group() -> None: ...


@app.command("run")
def run_study(
    recipe: Annotated[str, typer.Argument(help="A study recipe: a path, or a shipped one.")],
    out: OutOption = Path("runs/study"),
    workers: WorkersOption = None,
    engine: EngineOption = None,
    retry_failed: RetryOption = False,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Do every run that is not done yet, then write table, plots and page."""
    from functools import partial

    from osler.stages.study.recipe import StudyRecipe
    from osler.stages.study.run import plan, run
    from osler.stages.study.runner import LocalRunner

    do = partial(run, runner=LocalRunner(), retry_failed=retry_failed)
    perform(
        StudyRecipe,
        plan,
        do,
        recipe=recipe,
        sets=sets,
        options={"workers": workers, "engine": engine},
        out=out,
        force=force,
        dry_run=dry_run,
    )


@app.command("resume")
def resume_study(
    study: Annotated[Path, typer.Argument(help="The --out of a study that was begun.")],
    workers: WorkersOption = None,
    engine: EngineOption = None,
    retry_failed: RetryOption = False,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Go on with a study by the recipe that lies beside its runs."""
    from osler.core.errors import InputError
    from osler.stages.study.progress import recall
    from osler.stages.study.run import plan, run
    from osler.stages.study.runner import LocalRunner

    found = recall(study)
    if found is None:
        raise InputError("no study was begun here", where=study, fix="Begin it: osler study run RECIPE --out DIR")
    changes = {name: value for name, value in (("workers", workers), ("engine", engine)) if value is not None}
    recipe = found.recipe.changed(**changes)
    announce(plan(recipe, found.out), dry_run=dry_run)
    if not dry_run:
        finish(run(recipe, found.out, runner=LocalRunner(), force=force, retry_failed=retry_failed))


@app.command("status")
def study_status(
    study: StudyArgument,
    out: OutOption = Path("runs/study"),
    sets: SetOption = None,
) -> None:
    """Say which runs are done, running, waiting or failed, why they failed, and how long the rest will take."""
    from osler.core.console import console
    from osler.stages.study.progress import failures, lines, planned_lines, states_table, summary

    recipe, place = _study(study, out, sets)
    if recipe is None:
        found = lines(place)
    else:
        from osler.stages.study.runner import LocalRunner

        found = planned_lines(recipe, place, LocalRunner())
    console().print(states_table(found))
    for text in failures(found):
        console().print(text, style="red", markup=False)
    # The one line goes to standard output, so that a script can take it.
    typer.echo(summary(found))


@app.command("report")
def report_study(
    study: StudyArgument,
    out: OutOption = Path("runs/study"),
    sets: SetOption = None,
    force: ForceOption = False,
) -> None:
    """Make the tables of what is done; what is missing is marked and nothing is run."""
    from osler.core.console import console
    from osler.stages.study.run import report
    from osler.stages.study.runner import LocalRunner

    recipe, place = _study(study, out, sets, whole=True)
    assert recipe is not None
    folder, missing = report(recipe, place, runner=LocalRunner(), force=force)
    if missing:
        console().print(f"{len(missing)} runs are not done; these tables are incomplete", style="yellow")
    typer.echo(str(folder))


app.command("pairwise")(pairwise_study)


def _study(study: str, out: Path, sets: list[str] | None, *, whole: bool = False) -> tuple[StudyRecipe | None, Path]:
    """The study a person means: one that was begun, by its folder, or what a recipe would make in --out.

    The recipe of one that was begun is only read where it is needed (`whole`): its list of runs says the same, quicker.
    """
    from osler.core.errors import InputError
    from osler.stages.study.progress import recall
    from osler.stages.study.recipe import StudyRecipe

    begun = recall(Path(study))
    if begun is not None:
        return (begun.recipe if whole else None), begun.out
    if Path(study).is_dir():
        raise InputError(
            "no study was begun here", where=study, fix="Give the --out of a study that was begun, or a recipe"
        )
    recipe = resolve(StudyRecipe, study, sets, {})
    assert isinstance(recipe, StudyRecipe)
    return recipe, out
