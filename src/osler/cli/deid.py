"""`osler deid`: de-identify notes, and measure how well that works."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from osler.cli.common import Invocation, recipe_command
from osler.stages.serve.deid.config import DeidEvaluateRecipe, DeidRecipe

PARTIAL = 3
"""Exit code if some notes could not be processed and were therefore not written."""


class _NotesOrCommand(TyperGroup):
    """Lets `osler deid NOTES` work without a subcommand, next to `osler deid evaluate`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # Users never type the hidden command `notes`, and a folder may have that name.
        own = {name for name, command in self.commands.items() if not command.hidden}
        return super().parse_args(ctx, args if args and args[0] in own else ["notes", *args])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return ("" if name == "notes" else name), command, rest


app = typer.Typer(cls=_NotesOrCommand, add_completion=False)


@app.command("notes", hidden=True)
@recipe_command(
    DeidRecipe,
    out="runs/deid",
    argument="files",
    options={
        "style": "",
        "dates": "",
        "scope": "",
        "bundle": "--bundle -b",
        "heads": "--head",
        "language": "",
        "min_score": "",
        "thresholds": "--threshold",
        "target_recall": "",
        "to": "",
        "patient_column": "",
        "patient_pattern": "",
        "key_file": "",
        "keep_names": "--keep-names",
        "keep_columns": "--keep-column",
        "write_mapping": "--write-mapping",
        "review": "--review",
        "text_columns": "--text-column",
        "id_column": "",
        "encoding": "",
        "device": "",
    },
)
def notes(call: Invocation) -> None:
    """Replace names, dates, numbers and other PHI in notes. No method finds all PHI: measure with `osler deid evaluate`.

    Exit code 0: every note was written. 2: nothing was done. 3: some notes could not be processed and were not written.
    """
    from osler.stages.serve.deid.run import plan, report_skipped, run

    artifact = call.perform(plan, run)
    if artifact is not None and report_skipped(artifact):
        raise typer.Exit(PARTIAL)


@app.command("evaluate")
@recipe_command(
    DeidEvaluateRecipe,
    out="runs/deid-evaluation",
    options={
        "bundle": "--bundle -b",
        "heads": "--head",
        "split": "",
        "scope": "",
        "language": "",
        "min_score": "",
        "thresholds": "--threshold",
        "target_recall": "",
        "rules": "--rules/--no-rules",
        "terms": "",
        "planted": "",
        "device": "",
    },
)
def evaluate(
    call: Invocation,
    task: Annotated[str | None, typer.Option("--task", help="A task folder or name with gold PHI.")] = None,
) -> None:
    """Measure recall by category, notes without a leak, recall of names by origin and gender, and needlessly removed clinical words."""
    from osler.stages.prepare.run import task_folders
    from osler.stages.serve.deid.evaluate import plan, run

    call.flags["task"] = "--task"
    if task is not None:
        [call.options["task"]] = task_folders([task], dry_run=call.dry_run)
    call.perform(plan, run)
