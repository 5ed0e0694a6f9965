"""The `osler` command. Its help reads like the flow; each command lives in a file of its own and imports what it needs when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from osler import __version__
from osler.cli import annotate, corpus, demo, evaluate, export, finetune, pretrain, study, tasks, vocab
from osler.cli.common import guarded

app = typer.Typer(
    name="osler",
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
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log events to standard error (never document text).")] = False,
) -> None:
    from osler.core.logs import configure

    configure(verbose)


app.add_typer(corpus.app, name="corpus")
app.add_typer(vocab.app, name="vocab")
app.command("pretrain")(pretrain.pretrain)
app.add_typer(tasks.app, name="tasks")
app.command("finetune")(finetune.finetune)
app.command("evaluate")(evaluate.evaluate)
app.add_typer(study.app, name="study")
app.command("annotate")(annotate.annotate)
app.command("export")(export.export)
app.command("demo")(demo.demo)


def main() -> None:
    """Entry point."""
    guarded(app)


if __name__ == "__main__":
    main()
