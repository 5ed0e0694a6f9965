"""`osler study`: compare many models on many tasks and seeds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from osler.cli.common import DryRunOption, ForceOption, OutOption, SetOption, announce, finish

if TYPE_CHECKING:
    from osler.stages.study.recipe import StudyRecipe

app = typer.Typer(
    help="Models x tasks x seeds to tables with intervals.",
    no_args_is_help=True,
    add_completion=False,
)

RecipeArgument = Annotated[str, typer.Argument(help="A study recipe: a path, or a shipped one.")]
StudyArgument = Annotated[str, typer.Argument(help="The --out of a study that was begun, or a study recipe.")]
RetryOption = Annotated[bool, typer.Option("--retry-failed", help="Try runs again that failed before.")]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", help="Runs at the same time; 0 chooses by cores and GPU memory.")
]
EngineOption = Annotated[str | None, typer.Option("--engine", help="local, or ray for a cluster (RAY_ADDRESS).")]


@app.callback()
def _group() -> None: ...


def _study_command(name: str, default_out: str, help_text: str, *, pairs: bool = False) -> None:
    """Add a command that runs a study from a recipe."""

    def command(
        recipe: RecipeArgument,
        out: OutOption = Path(default_out),
        workers: WorkersOption = None,
        engine: EngineOption = None,
        retry_failed: RetryOption = False,
        sets: SetOption = None,
        force: ForceOption = False,
        dry_run: DryRunOption = False,
    ) -> None:
        resolved = _resolve(recipe, sets, workers=workers, engine=engine)
        resolved = resolved.in_pairs() if pairs else resolved
        _perform(resolved, out, retry_failed=retry_failed, force=force, dry_run=dry_run)

    app.command(name, help=help_text)(command)


_study_command(
    "run",
    "runs/study",
    "Do every run that is not done yet, then write tables, plots and the page. Print table and verdict.",
)
_study_command(
    "pairwise",
    "runs/pairwise",
    "Find out which task helps which: a matrix, a graph and suggested groups (pairwise.html, pairwise.json).",
    pairs=True,
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
    """Resume a study with its original recipe."""
    from osler.core.errors import InputError
    from osler.stages.study.progress import load_study

    begun = load_study(study)
    if begun is None:
        raise InputError("no study was begun here", where=study, fix="Begin it: osler study run RECIPE --out DIR")
    changes = {name: value for name, value in (("workers", workers), ("engine", engine)) if value is not None}
    recipe, out = begun
    _perform(recipe.changed(**changes), out, retry_failed=retry_failed, force=force, dry_run=dry_run)


@app.command("status")
def study_status(study: StudyArgument, out: OutOption = Path("runs/study"), sets: SetOption = None) -> None:
    """Show which runs are done, running, waiting or failed (and why), and the time left."""
    from osler.core.console import console
    from osler.stages.study.plan import expand
    from osler.stages.study.progress import failures, lines, planned_lines, states_table, summary

    recipe, place = _find_study(study, out, sets, begun_recipe=False)
    found = lines(place) if recipe is None else planned_lines(expand(recipe, place))
    console().print(states_table(found))
    for text in failures(found):
        console().print(text, style="red", markup=False)
    # Only the summary goes to standard output, so that scripts can read it.
    typer.echo(summary(found))


@app.command("report")
def report_study(
    study: StudyArgument,
    out: OutOption = Path("runs/study"),
    sets: SetOption = None,
    force: ForceOption = False,
) -> None:
    """Write the tables of the finished runs. Missing runs are marked and not started."""
    from osler.core.console import console
    from osler.stages.study.run import report

    recipe, place = _find_study(study, out, sets, begun_recipe=True)
    assert recipe is not None
    folder, missing = report(recipe, place, force=force)
    if missing:
        runs = f"{len(missing)} run{'s are' if len(missing) > 1 else ' is'}"
        console().print(f"{runs} not done; these tables are incomplete", style="yellow")
    _show(folder)
    typer.echo(str(folder))


@app.command("page")
def study_page(
    study: Annotated[Path, typer.Argument(help="A finished study, or its results.json alone.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The Markdown file to write.")] = Path("study.md"),
    about: Annotated[
        Path | None, typer.Option("--about", help="A Markdown file with what the tables do not say; it comes first.")
    ] = None,
) -> None:
    """Write a study as one Markdown page from its results.json alone."""
    from osler.core.errors import InputError
    from osler.core.files import write_atomic
    from osler.stages.study.page import RESULTS, study_markdown
    from osler.stages.study.results import read_results

    results = read_results(study / RESULTS if study.is_dir() else study)
    try:
        text = about.read_text(encoding="utf-8") if about else ""
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("cannot be read as UTF-8 text", where=about, fix="Give a Markdown file") from error
    write_atomic(out, study_markdown(results, text))
    typer.echo(str(out))


def _resolve(recipe: str, sets: list[str] | None, **options: object) -> StudyRecipe:
    from osler.core.config import find_recipe, load_recipe
    from osler.stages.study.recipe import StudyRecipe

    asked = {"models": "--set models.NAME.model=FOLDER for each model", "tasks": "--set tasks=FOLDER,FOLDER"}
    return load_recipe(StudyRecipe, find_recipe(recipe), sets or (), options, asked)


def _perform(recipe: StudyRecipe, out: Path, *, retry_failed: bool, force: bool, dry_run: bool) -> None:
    from osler.stages.study.plan import expand
    from osler.stages.study.run import plan, run

    planned = expand(recipe, out)
    announce(plan(recipe, out, planned, force=force, dry_run=dry_run), dry_run=dry_run)
    if dry_run:
        return
    made = run(recipe, out, force=force, retry_failed=retry_failed, planned=planned)
    _show(made.path)
    finish(made)


def _show(folder: Path) -> None:
    """Print the table and the verdict of a study."""
    from osler.core.console import console
    from osler.report.terminal import table_rich
    from osler.stages.study.page import study_summary

    found = study_summary(folder)
    console().print(table_rich(found.compact))
    for number, text in enumerate(found.verdict):
        console().print(text, style="" if number else "bold", markup=False)
    if found.published is not None:
        console().print(table_rich(found.published))


def _find_study(
    study: str, out: Path, sets: list[str] | None, *, begun_recipe: bool
) -> tuple[StudyRecipe | None, Path]:
    """Return recipe and folder of a started study, given its folder, or of the study that a recipe would make in --out.

    Without `begun_recipe`, the recipe of a started study is None: its list of runs is enough, and faster to read.
    """
    from osler.core.config import find_recipe
    from osler.core.errors import InputError, RecipeError
    from osler.stages.study.progress import load_study

    begun = load_study(Path(study))
    if begun is not None:
        recipe, begun_out = begun
        return (recipe if begun_recipe else None), begun_out
    fix = "Give the --out of a study that was begun, or a study recipe"
    if Path(study).is_dir():
        raise InputError("no study was begun here", where=study, fix=fix)
    try:
        find_recipe(study)
    except RecipeError as error:
        close = error.fix if error.fix and error.fix.endswith("?") else fix
        raise InputError("neither a study that was begun nor a recipe", where=study, fix=close) from None
    return _resolve(study, sets), out
