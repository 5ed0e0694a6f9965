"""`osler corpus`: build a clean corpus from raw text, and inspect what was removed and why."""

from __future__ import annotations

from typing import Annotated

import typer

from osler.cli import corpus_show
from osler.cli.common import Invocation, recipe_command
from osler.core.config import validate
from osler.core.errors import RecipeError
from osler.stages.corpus.config import CorpusRecipe, CorpusSource

app = typer.Typer(help="Raw text to a clean corpus.", no_args_is_help=True, add_completion=False)


@app.callback()
def _group() -> None: ...


@app.command("build")
@recipe_command(
    CorpusRecipe,
    out="runs/corpus",
    argument="sources",
    options={"preset": "--clean", "strict": "--strict", "engine": ""},
)
def build(
    call: Invocation,
    language: Annotated[str | None, typer.Option(help="Language of the files, such as en or es.")] = None,
    unit: Annotated[
        str | None,
        typer.Option(help="A document in plain text: a file (default), a line, or a block between blank lines."),
    ] = None,
    text_field: Annotated[
        str | None, typer.Option(help="Field or column with the text, in JSON Lines and Parquet; text by default.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of the files, such as latin-1; utf-8 by default.")
    ] = None,
    reader: Annotated[str | None, typer.Option(help="Read every file with this reader, whatever its ending.")] = None,
) -> None:
    """Read, repair, filter and deduplicate text into a corpus."""
    from osler.stages.corpus.run import plan, run

    options = {"language": language, "unit": unit, "text_field": text_field, "encoding": encoding, "reader": reader}
    given = {name: value for name, value in options.items() if value is not None}
    if given:
        flags = {name: f"--{name.replace('_', '-')}" for name in given}
        files = call.options["sources"]
        if not files:
            raise RecipeError(
                f"{next(iter(flags.values()))} is for files named on the command line",
                fix="Name them, or put the setting into the sources of the recipe",
            )
        validate(CorpusSource, {"files": files, **given}, where=None, given=flags)
        call.options["sources"] = [{"files": [file], **given} for file in files]
    call.perform(plan, run)


app.command("show")(corpus_show.show)
app.command("explain")(corpus_show.explain)
app.command("audit")(corpus_show.audit)
