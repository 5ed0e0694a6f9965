"""`osler tasks prepare` and tasks given by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from osler.cli.common import DryRunOption, ForceOption, OutOption, RecipeOption, SetOption, announce, perform
from osler.core.errors import InputError, nearest

if TYPE_CHECKING:
    from osler.stages.prepare.run import PrepareJob, PrepareOutcome

ROOT = Path("tasks")
"""Where prepared tasks are looked for, and put: below the current folder."""


def task_folders(given: Sequence[Path] | None, data: Path | None = None, *, dry_run: bool = False) -> list[Path] | None:
    """A folder for each task: as given, `tasks/NAME`, or made there from the official files below `data`."""
    return [_folder(path, data, dry_run) for path in given] if given else None


def _folder(given: Path, data: Path | None, dry_run: bool) -> Path:
    from osler.tasks.catalogue import card_paths, load_card

    name = str(given)
    if given.exists():
        return given
    if name not in card_paths():
        likely = nearest(name, card_paths()) if len(given.parts) == 1 else None
        if likely:
            raise InputError(f"{name}: no such folder, and no task of this name", fix=f"Did you mean {likely}?")
        return given
    folder = ROOT / name
    if folder.exists():
        return folder
    embedded = load_card(name).source.reader == "clinic"
    if data is None and not embedded:
        raise InputError(
            f"the task {name} is not prepared: there is no folder {folder}",
            fix=f"Give the folder with the official files with --data, or run: osler tasks prepare {name} --from DIR --out {folder}",
        )
    from osler.cli.common import announce
    from osler.stages.prepare.run import PrepareRecipe, plan, run

    recipe = PrepareRecipe(task=name, source=data)
    announce(plan(recipe, folder), dry_run=dry_run)
    if not dry_run:
        run(recipe, folder)
    return folder


def prepare(
    task: Annotated[str | None, typer.Argument(help="A task name, or the path of a card.")] = None,
    source: Annotated[
        Path | None, typer.Option("--from", help="The folder or archive with the official files.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every task whose files are in --from.")] = False,
    fold: Annotated[
        int | None, typer.Option("--fold", help="One fold of a task that has them; all by default.")
    ] = None,
    out: OutOption = Path("runs/task"),
    recipe: RecipeOption = None,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Read a task's data, check it and write a task folder."""
    from osler.core.errors import RecipeError
    from osler.stages.prepare.run import PrepareRecipe, plan, run

    if everything:
        if task is not None or recipe is not None or sets or fold is not None:
            raise RecipeError("--all takes no task, recipe, --set or --fold", fix="Give --from and --out alone")
        _prepare_many(None, source, out, force=force, dry_run=dry_run)
        return
    if task is not None and fold is None and recipe is None and not sets and _has_folds(task):
        _prepare_many([task], source, out, force=force, dry_run=dry_run)
        return
    options = {"task": task, "source": source, "fold": fold}
    perform(PrepareRecipe, plan, run, recipe=recipe, sets=sets, options=options, out=out, force=force, dry_run=dry_run)


def _has_folds(task: str) -> bool:
    from osler.tasks.catalogue import load_card

    return load_card(task).folds > 0


def _prepare_many(tasks: list[str] | None, source: Path | None, out: Path, *, force: bool, dry_run: bool) -> None:
    from osler.core.errors import RecipeError
    from osler.stages.prepare.run import fold_jobs, jobs, run_all

    if source is None:
        raise RecipeError("no folder is given", fix="Give the folder with the official files with --from")
    todo = jobs(out) if tasks is None else fold_jobs(tasks[0], out)
    what = "every task whose files are there" if tasks is None else f"the {len(todo)} folds of {tasks[0]}"
    announce([f"prepare {what} from {source}", f"write a folder for each below {out}"], dry_run=dry_run)
    if dry_run:
        return
    outcomes = []
    for outcome in run_all(source, todo, anywhere=tasks is not None, force=force):
        outcomes.append(outcome)
        _tell(outcome)
    _sum_up(todo, outcomes)
    typer.echo(str(out))


def _tell(outcome: PrepareOutcome) -> None:
    from osler.core.console import console

    if outcome.status in ("made", "reused"):
        sizes = " · ".join(f"{k} {v:,}" for k, v in outcome.counts.items() if isinstance(v, int))
        console().print(f"[bold green]✓[/] {outcome.job.name} {outcome.status}: {sizes}")
    elif outcome.status != "not found":
        console().print(f"[bold red]✗[/] {outcome.job.name} {outcome.status}: ", end="")
        console().print(outcome.message, markup=False)


def _sum_up(todo: list[PrepareJob], outcomes: list[PrepareOutcome]) -> None:
    from osler.core.console import console

    done = [o for o in outcomes if o.status in ("made", "reused")]
    wrong = [o for o in outcomes if o.status in ("failed", "incomplete")]
    missing = sorted(o.job.name for o in outcomes if o.status == "not found")
    console().print(f"{len(done)} of {len(todo)} prepared", style="bold")
    if missing:
        console().print(f"not found: {', '.join(missing)} (`osler tasks info NAME` says how to get them)", markup=False)
    if wrong or not done:
        raise typer.Exit(1)
