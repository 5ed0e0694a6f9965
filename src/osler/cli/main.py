"""The `osler` command. Each command lives in a module of its own, which is imported when the command runs."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from osler import __version__
from osler.core.errors import OslerError

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
    """Run the command line; every failure ends in one clear message that never quotes a document."""
    try:
        app()
    except OslerError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("stopped. Run the same command again to continue.", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        from osler.core.extras import explain_missing

        missing = explain_missing(error) if isinstance(error, ModuleNotFoundError) else None
        if missing is not None:
            _fail(str(missing), missing.exit_code)
        if os.environ.get("OSLER_DEBUG"):
            raise
        frame = traceback.extract_tb(error.__traceback__)[-1]
        # The message of an unexpected error may quote a document (a parser's, for example), so it is not shown.
        _fail(
            f"internal error ({type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}). "
            "Its message is hidden because it may quote a document. Set OSLER_DEBUG=1 to see it, and please report it.",
            1,
        )


def _fail(message: str, code: int) -> None:
    typer.secho(f"error: {message}", fg=typer.colors.RED, err=True)
    sys.exit(code)
