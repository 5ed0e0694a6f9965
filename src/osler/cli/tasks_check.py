"""`osler tasks check`: compare prepared tasks with their papers and with each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from osler.cli.common import writing_to

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from osler.artifacts.task_folder import TaskFolder
    from osler.stages.prepare.check import CheckReport, TaskReport
    from osler.tasks.leakage import SharedRecords


_EVIDENCE = (
    "Texts are compared without case, accents and punctuation. A near-duplicate is largely contained in the other text, or has "
    "most of its words in the same order (from ten words on). Below five words only exact copies are counted, as same short text. "
    "Fine-tuning removes the same texts, and near-duplicates that another task holds out; short texts stay."
)


def check(
    folders: Annotated[list[Path], typer.Argument(help="Task folders, or folders that hold them.")],
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the results to this JSON file; - for standard output.")
    ] = None,
    leakage: Annotated[bool, typer.Option(help="Look for records shared by splits or tasks.")] = True,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 1 on an unexplained difference.")] = False,
) -> None:
    """Compare the counts of task folders with their cards and papers, verify offsets, and look for shared records."""
    import json

    from osler.core.files import write_atomic
    from osler.stages.prepare.check import check as run

    report = run(_tasks(folders), leakage=leakage)
    if json_file is not None:
        text = json.dumps(report.as_dict(), indent=1, ensure_ascii=False) + "\n"
        if str(json_file) == "-":
            typer.echo(text, nl=False)
        else:
            with writing_to(json_file, "--json"):
                write_atomic(json_file, text)
    if str(json_file) != "-":
        _show(report, leakage)
    if strict and not report.sound:
        raise typer.Exit(1)


def _tasks(folders: Sequence[Path]) -> list[TaskFolder]:
    from osler.artifacts.task_folder import TaskFolder
    from osler.core.artifact import MANIFEST, Artifact
    from osler.core.errors import ArtifactError

    found = []
    for folder in folders:
        if not folder.exists():
            raise ArtifactError("no such folder", where=folder, fix="Check the path")
        if (folder / MANIFEST).is_file():
            found.append(folder)
            continue
        inside = sorted(path.parent for path in folder.glob(f"**/{MANIFEST}")) if folder.is_dir() else []
        inside = [path for path in inside if Artifact.open(path).manifest.kind == "task"]
        if not inside:
            raise ArtifactError("no task folder found", where=folder, fix="Make one with `osler tasks prepare`")
        found += inside
    return [TaskFolder.open(path) for path in found]


def _show(report: CheckReport, leakage: bool) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 160)  # files and pipes have no width
    for task in report.tasks:
        console.print(_table(task))
        for note in _notes(task):
            console.print(f"  {note}", markup=False)
        if not task.aligned:
            console.print(f"  {MISALIGNED}", style="bold red", markup=False)
        console.print()
    if leakage:
        for title, items in (
            ("Records shared by splits of one task", report.within),
            ("Training records that another task holds out", report.across),
        ):
            telling = [item for item in items if item.telling]
            console.print(_overlaps(title, telling) if telling else f"{title}: none")
            if len(telling) < len(items):
                console.print(f"  {len(items) - len(telling)} other comparisons share ids only", style="dim")
            console.print()
        if any(item.telling for item in (*report.within, *report.across)):
            console.print(f"  {_EVIDENCE}\n", style="dim")
    unsound = [task.task for task in report.tasks if not task.sound]
    explained = any(line.verdict == "explained" for task in report.tasks for line in task.lines)
    good = "all counts are as stated or explained" if explained else "all counts are as stated"
    made_up = sum(task.synthetic for task in report.tasks)
    if made_up:
        good += f"; {made_up} of {len(report.tasks)} tasks have synthetic files, whose counts are not compared"
    if made_up == len(report.tasks):
        good = "all files are synthetic: there is nothing to compare their counts with"
    verdict = f"unexplained differences or wrong offsets: {', '.join(unsound)}" if unsound else good
    console.print(verdict, style="bold red" if unsound else "bold green", markup=False)


def _table(task: TaskReport) -> Table:
    from rich.table import Table

    mark = "[bold green]✓[/]" if task.sound else "[bold red]✗[/]"
    title = f"{mark} {task.task}" + (f", release {task.release}" if task.release else "")
    title += " (synthetic files)" if task.synthetic else ""
    table = Table("split", "number", title=title, title_justify="left", box=None, header_style="bold")
    for column in ("here", "official files", "paper"):
        table.add_column(column, justify="right")
    table.add_column("")
    style = {"explained": "yellow", "differs": "bold red", "synthetic": "dim", "not stated": "dim"}
    for line in task.lines:
        if line.number.startswith("label:") and line.verdict == "equal":
            continue
        numbers = ("-" if n is None else f"{n:,}" for n in (line.here, line.card, line.paper))
        shown = f"[{style.get(line.verdict, 'green')}]{line.verdict}[/]" + (f": {line.reason}" if line.reason else "")
        table.add_row(line.split, line.number.removeprefix("label:"), *numbers, shown)
    return table


def _notes(task: TaskReport) -> list[str]:
    notes = []
    if task.offsets.get("mentions"):
        notes.append(offsets_text(task.offsets))
        odd = {name: sum(s.get(name, 0) for s in task.splits.values()) for name in ("overlapping", "discontinuous")}
        notes.append(", ".join(f"{count:,} {name}" for name, count in odd.items()))
    notes += defects_text(task.problems)
    if task.left_out:
        notes.append(left_out_text(task.left_out))
    if task.absent:
        notes.append(f"missing from the files: {', '.join(task.absent)}")
    return notes


MISALIGNED = (
    "So many mentions are off that the offsets must count something else than characters (option `offsets` of the format, "
    "docs/guide/formats.md), or texts and annotations do not belong together."
)


def offsets_text(counts: Mapping[str, int]) -> str:
    """Return how many mentions were verified, and the share that is misaligned."""
    total = counts["mentions"]
    off = [f"{n:,} ({n / total:.2%}) {name}" for name, n in counts.items() if name != "mentions" and n]
    shown = ", ".join(off).replace("blanks", "whitespace")
    good = ", all cover whole words, and their own text where the files state it"
    return f"{total:,} mentions verified" + (f": {shown}" if off else good)


def defects_text(problems: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return one line per split with its defects, which the card states or tolerates."""
    return [
        f"defects in {split}: " + ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
        for split, kinds in problems.items()
    ]


def left_out_text(counts: Mapping[str, int]) -> str:
    """List the labels in the files that the card leaves out, most frequent first."""
    listed = [f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda item: -item[1])[:8]]
    more = len(counts) - len(listed)
    return "left out by the card: " + ", ".join(listed) + (f" and {more} other labels" if more > 0 else "")


def _overlaps(title: str, items: Sequence[SharedRecords]) -> Table:
    from rich.table import Table

    table = Table("records of", "also in", title=title, title_justify="left", box=None, header_style="bold")
    for column in ("same text", "near-duplicate", "same short text", "same id"):
        table.add_column(column, justify="right")
    for item in items:
        table.add_row(item.of, item.within, *(f"{n:,}" for n in (item.texts, item.near, item.short, item.ids)))
    return table
