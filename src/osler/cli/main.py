"""The `osler` command. Its help reads like the flow; each command lives in a file of its own and imports what it needs when it runs."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.core import TyperGroup

from osler import __version__
from osler.cli import annotate, convert, corpus, demo, evaluate, export, finetune, pretrain, study, tasks, vocab
from osler.cli import pretrain as distill
from osler.cli.common import guarded

_FLOW = (
    "corpus",
    "vocab",
    "pretrain",
    "distill",
    "tasks",
    "finetune",
    "evaluate",
    "study",
    "annotate",
    "export",
    "convert",
    "demo",
)


class _InFlowOrder(TyperGroup):
    """Lists the commands in the order in which they are used."""

    def list_commands(self, ctx: object) -> list[str]:
        """The commands of the flow first, then any other."""
        return [*_FLOW, *(name for name in self.commands if name not in _FLOW)]


app = typer.Typer(
    name="osler",
    cls=_InFlowOrder,
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


app.add_typer(corpus.app, name="corpus")
app.add_typer(vocab.app, name="vocab")
app.command("pretrain")(pretrain.pretrain)
app.command("distill")(distill.distill)
app.add_typer(tasks.app, name="tasks")
app.command("finetune")(finetune.finetune)
app.command("evaluate")(evaluate.evaluate)
app.add_typer(study.app, name="study")
app.command("annotate")(annotate.annotate)
app.command("export")(export.export)
app.command("convert")(convert.convert)
app.command("demo")(demo.demo)


def main() -> None:
    """Entry point."""
    guarded(app)


if __name__ == "__main__":
    main()
