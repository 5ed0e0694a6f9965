"""`osler tasks`: list tasks, prepare their data, and write cards for your own."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osler.cli import tasks_check, tasks_show
from osler.cli.common import Invocation, announce, recipe_command, writing_to
from osler.clinic.synthesize import SynthesizeRecipe
from osler.core.errors import InputError, RecipeError
from osler.stages.prepare.config import DiscoverRecipe, PrepareRecipe

if TYPE_CHECKING:
    from osler.stages.prepare.discover import Discovery
    from osler.stages.prepare.run import PrepareJob, PrepareOutcome

app = typer.Typer(help="List tasks and prepare their data.", no_args_is_help=True, add_completion=False)


@app.command("list")
def list_tasks(
    language: Annotated[str | None, typer.Option("--language", help="Only tasks in this language: en, es, fr.")] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="Only tagging, relation, classification, multilabel or regression.")
    ] = None,
    domain: Annotated[str | None, typer.Option("--domain", help="Only clinical or biomedical texts.")] = None,
) -> None:
    """List all tasks."""
    from rich.console import Console
    from rich.table import Table

    from osler.tasks.catalogue import all_cards

    cards, asked = all_cards(), {"language": language, "kind": kind, "domain": domain}
    for name, value in asked.items():
        known = sorted({str(getattr(card, name)) for card in cards})
        if value is not None and value not in known:
            raise typer.BadParameter(f"must be one of {', '.join(known)}", param_hint=f"--{name}")
    screen = Console(soft_wrap=True)
    # A narrow terminal has room for descriptions only; `tasks info` shows labels and protocols.
    more = ("labels", "protocols") if screen.width >= 110 else ()
    table = Table("task", "kind", "language", *more, "description", box=None, header_style="bold")
    for card in cards:
        if all(value is None or value == getattr(card, name) for name, value in asked.items()):
            others = len(card.protocols) - 1
            protocols = f"{card.protocol} (+{others})" if others else card.protocol
            details = (str(len(card.labels) or "-"), protocols) if more else ()
            table.add_row(card.name, card.kind, card.language, *details, card.title)
    screen.print(table)


@app.command("info")
def info(
    task: Annotated[str, typer.Argument(help="A task name, or the path of a card.")],
    toml: Annotated[bool, typer.Option("--toml", help="Print the full card as TOML, to edit a copy.")] = False,
) -> None:
    """Show a task: files and how to get them, labels, counts and protocols."""
    from osler.tasks.catalogue import load_card
    from osler.tasks.describe import describe

    card = load_card(task)
    if toml:
        import tomli_w

        typer.echo(tomli_w.dumps(card.resolved()).rstrip())
    else:
        typer.echo(describe(card, task))


@app.command("prepare")
@recipe_command(
    PrepareRecipe, out="runs/task", argument="task", options={"source": "--from", "fold": "", "release": ""}
)
def prepare(
    call: Invocation,
    everything: Annotated[bool, typer.Option("--all", help="Every task whose files are in --from.")] = False,
) -> None:
    """Read and check a task's data and write a task folder, or one folder per fold if the task has folds."""
    from osler.stages.prepare.run import plan, run
    from osler.tasks.catalogue import load_card

    task, fold, release = call.options["task"], call.options["fold"], call.options["release"]
    if everything:
        if call.sets or any(given is not None for given in (task, call.recipe, fold, release)):
            problem = "--all cannot be combined with a task, --recipe, --set, --fold or --release"
            raise RecipeError(problem, fix="Give only --from and --out")
        _prepare_many(call)
    elif task is not None and fold is None and call.recipe is None and not call.sets and load_card(task).folds:
        _prepare_many(call)
    else:
        made = call.perform(plan, run)
        if made is not None:
            _print_findings(made.manifest.counts)


def _print_findings(counts: Mapping[str, Any]) -> None:
    """Print findings about the files: release, alignment of mentions, defects, and labels left out by the card."""
    from osler.core.console import console
    from osler.tasks.records import OffsetCounts

    lines = [f"release of the corpus: {counts['release']}"] if "release" in counts else []
    offsets = counts.get("offsets", {})
    if offsets.get("mentions"):
        lines.append(tasks_check.offsets_text(offsets))
    lines += tasks_check.defects_text(counts.get("problems", {}))
    if counts.get("left_out"):
        lines.append(tasks_check.left_out_text(counts["left_out"]))
    for line in lines:
        console().print(f"  {line}", style="dim", markup=False)
    if OffsetCounts.misaligned(offsets, counts.get("left_out", {})):
        console().print(f"! {tasks_check.MISALIGNED}", style="bold yellow", markup=False)


def _prepare_many(call: Invocation) -> None:
    """Prepare all folds of a task, or all tasks."""
    from osler.stages.prepare.run import fold_jobs, jobs, run_all

    task, source, out = call.options["task"], call.options["source"], call.out
    if source is None:
        raise RecipeError("--from is missing", fix="Give the folder with the official files with --from")
    todo = jobs(out) if task is None else fold_jobs(task, out)
    what = "every task whose files are there" if task is None else f"the {len(todo)} folds of {task}"
    announce([f"prepare {what} from {source}", f"write one folder per task below {out}"], dry_run=call.dry_run)
    if call.dry_run:
        return
    outcomes = []
    for outcome in run_all(source, todo, anywhere=task is not None, force=call.force):
        outcomes.append(outcome)
        _print_outcome(outcome)
    if task is not None and all(outcome.status == "not found" for outcome in outcomes):
        raise InputError(min(outcomes, key=lambda outcome: outcome.job.fold or 0).message)
    _print_summary(todo, outcomes)
    typer.echo(str(out))


def _print_outcome(outcome: PrepareOutcome) -> None:
    from osler.core.console import console

    if outcome.status in ("made", "reused"):
        numbers = {k: v for k, v in outcome.counts.items() if isinstance(v, int) and not isinstance(v, bool)}
        sizes = " · ".join(f"{name} {number:,}" for name, number in numbers.items())
        made_up = " (synthetic files)" if outcome.counts.get("synthetic") else ""
        console().print(f"[bold green]✓[/] {outcome.job.name} {outcome.status}: {sizes}{made_up}")
        _print_findings(outcome.counts)
    elif outcome.status != "not found":
        console().print(f"[bold red]✗[/] {outcome.job.name} {outcome.status}: ", end="")
        console().print(outcome.message, markup=False)


def _print_summary(todo: list[PrepareJob], outcomes: list[PrepareOutcome]) -> None:
    from osler.core.console import console

    done = [o for o in outcomes if o.status in ("made", "reused")]
    wrong = [o for o in outcomes if o.status in ("failed", "incomplete")]
    missing = sorted({o.job.task for o in outcomes if o.status == "not found"})
    console().print(f"{len(done)} of {len(todo)} prepared", style="bold")
    if missing:
        console().print(f"not found: {', '.join(missing)} (`osler tasks info NAME` says how to get them)", markup=False)
    if wrong or not done:
        raise typer.Exit(1)


@app.command("new")
@recipe_command(DiscoverRecipe, out=None, argument="name", options={"source": "--from", "format": "", "kind": ""})
def new(call: Invocation) -> None:
    """Write a card for your own data. Labels, counts and splits are detected; you edit the rest.

    The card is written to --out, or to NAME.toml.
    """
    from osler.core.files import write_atomic
    from osler.stages.prepare.discover import check_card_path, discover

    recipe = call.resolve()
    path = Path(f"{recipe.name}.toml") if call.out == Path() else call.out
    check_card_path(path, force=call.force)
    announce([f"read {recipe.source} and write the card {path}"], dry_run=call.dry_run)
    if call.dry_run:
        return
    found = discover(recipe)
    with writing_to(path, "--out"):
        write_atomic(path, found.text)
    _print_discovery(found, recipe.source, path)
    typer.echo(os.path.relpath(path))


def _print_discovery(found: Discovery, source: Path, path: Path) -> None:
    from rich.table import Column, Table

    from osler.core.console import console, list_text

    card, plan = found.card, found.plan
    screen = console()
    records = "pairs of texts" if card.record == "pair" else "documents"
    labels = f", {len(card.labels)} labels" if card.labels else ""
    screen.print(f"[bold green]✓[/] {card.kind} task over {records} in {card.source.format}{labels}")
    table = Table("split", Column("from", no_wrap=True), box=None, header_style="bold", pad_edge=False)
    numbers = [key for key, value in found.counts["train"].items() if isinstance(value, int)]
    for number in numbers:
        table.add_column(number, justify="right")
    for split, counts in found.counts.items():
        where = "carved out of train" if split in plan.carved else list_text(plan.files[split], 3)
        table.add_row(split, where, *(f"{counts.get(number, 0):,}" for number in numbers))
    screen.print(table)
    screen.print(f"  language {card.language}: a guess ({found.survey.language})", style="dim", markup=False)
    others = [kind.value for kind in found.survey.possible() if kind is not card.kind]
    if others:
        screen.print(f"  the data also fits: {', '.join(others)} (--kind)", style="dim", markup=False)
    if plan.left:
        left = f"{len(plan.left)} file(s) belong to no split and are not read; the first: {plan.left[0]}"
        screen.print(f"[bold yellow]![/] {left}")
    for split, files in plan.files.items():
        names = Counter(Path(file).name for file in files if "*" not in file)
        for name, count in names.items():
            if count > 1:
                several = (
                    f"split {split} reads {count} files called {name}: if they are versions of one corpus, it counts"
                )
                screen.print(f"[bold yellow]![/] {several} {count} times; give --from one of their folders")
    for split, problems in found.problems.items():
        listed = ", ".join(f"{count:,} {kind}" for kind, count in problems.items())
        screen.print(f"[bold yellow]![/] defects in {split}, stated on the card under known_problems: {listed}")
    screen.print(f"  next: osler tasks prepare {path} --from {source} --out task", style="dim", markup=False)


@app.command("synthesize")
@recipe_command(
    SynthesizeRecipe,
    out="runs/distribution",
    argument="task",
    options={"n": "", "release": "", "seed": "", "archives": "--archives/--folders"},
)
def synthesize(call: Invocation) -> None:
    """Write synthetic data for an access-controlled task, in the official format."""
    from osler.clinic.synthesize import plan, run

    call.perform(plan, run)


app.command("check")(tasks_check.check)
app.command("show")(tasks_show.show)
