"""The `osler` command. Each command lives in a module of its own, which is imported when the command runs."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from osler import __version__
from osler.cli.common import guarded

COMMANDS = {
    "corpus": "Raw text to a clean corpus.",
    "vocab": "A corpus to a tokenizer, and tokenizers compared.",
    "pretrain": "Pretrain an encoder on a corpus with masked language modelling.",
    "distill": "Distil an encoder into a smaller one: pretraining with a teacher.",
    "tasks": "Task cards and task data: list, prepare, check, show, new.",
    "finetune": "Fine-tune one encoder on one or more tasks.",
    "evaluate": "Score a bundle on a task under a named protocol.",
    "study": "Many models, tasks and seeds to one table.",
    "annotate": "Annotate raw text with every head of a bundle.",
    "export": "Export one head as a stock Hugging Face model.",
    "convert": "Convert annotations between formats.",
    "demo": "Run all six stages on embedded synthetic notes.",
}
"""Every command in the order of the flow, with its line in the help; `osler.cli.NAME` holds its `app`."""


class _Commands(TyperGroup):
    """Imports a command's module only when the command is asked for, so that none pays for another's imports."""

    listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.listing = True
        super().format_help(ctx, formatter)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        if self.listing:
            return TyperCommand(cmd_name, help=COMMANDS[cmd_name])
        command = typer.main.get_command(import_module(f"osler.cli.{cmd_name}").app)
        command.name = cmd_name
        return command


app = typer.Typer(
    name="osler",
    cls=_Commands,
    add_completion=False,
    help="Raw biomedical and clinical text to a language model you can evaluate, publish and serve.",
    no_args_is_help=True,
    # Typer's own tracebacks print local variables, which hold documents.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"osler {__version__}")
        raise typer.Exit


@app.callback()
def _global(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log events to standard error (never document text).")
    ] = False,
) -> None:
    from osler.core.logs import configure

    configure(verbose)


def main() -> None:
    """Entry point."""
    guarded(app)
