"""`osler vocab`: a corpus to a tokenizer, and tokenizers side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from osler.cli.common import (
    DryRunOption,
    ForceOption,
    OutOption,
    RecipeOption,
    SetOption,
    announce,
    finish,
    perform,
    resolve,
)
from osler.core.errors import RecipeError

if TYPE_CHECKING:
    from osler.stages.vocab.figures import TokenizerComparison

app = typer.Typer(help="A corpus to a vocabulary.", no_args_is_help=True)
_TERMS_ON_SCREEN = 10


@app.callback()
def _group() -> None: ...


@app.command("train")
def train(
    corpus: Annotated[Path | None, typer.Argument(help="A corpus folder.")] = None,
    out: OutOption = Path("runs/tokenizer"),
    size: Annotated[int | None, typer.Option("--size", help="How many tokens.")] = None,
    algorithm: Annotated[str | None, typer.Option("--algorithm", help="bpe, wordpiece or unigram.")] = None,
    recipe: RecipeOption = None,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Learn a vocabulary from a corpus, as a stock Hugging Face tokenizer folder."""
    from osler.stages.vocab.config import VocabRecipe
    from osler.stages.vocab.run import plan, run

    options = {"corpus": corpus, "size": size, "algorithm": algorithm}
    perform(VocabRecipe, plan, run, recipe=recipe, sets=sets, options=options, out=out, force=force, dry_run=dry_run)


@app.command("compare")
def compare(
    tokenizers: Annotated[
        list[Path] | None, typer.Argument(help="Two or more tokenizer folders or tokenizer.json files.")
    ] = None,
    corpus: Annotated[Path | None, typer.Option("--on", help="The corpus folder to compare them on.")] = None,
    terms: Annotated[
        Path | None, typer.Option("--terms", help="A text file with one term a line; else medical terms are found.")
    ] = None,
    documents: Annotated[int | None, typer.Option("--documents", help="How many documents to count.")] = None,
    min_documents: Annotated[
        int | None, typer.Option("--min-documents", help="Show a term only if so many documents have it.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The folder to make; without it nothing is kept.")
    ] = None,
    recipe: RecipeOption = None,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Compare tokenizers on a corpus: sub-words per word, words kept whole, the medical terms each cuts worst."""
    from osler.stages.vocab import compare as stage
    from osler.stages.vocab.config import CompareRecipe

    if corpus is None and recipe is None and not sets:
        raise RecipeError("no corpus is named", where="--on", fix="Give the folder of a corpus: --on CORPUS")
    options = {
        "tokenizers": tokenizers or None,
        "corpus": corpus,
        "terms": terms,
        "sample_documents": documents,
        "min_documents": min_documents,
    }
    resolved = cast("CompareRecipe", resolve(CompareRecipe, recipe, sets, options))
    announce(stage.plan(resolved, out), dry_run=dry_run)
    if dry_run:
        return
    if out is None:
        _print(stage.measure(resolved))
        return
    artifact = stage.run(resolved, out, force=force)
    _print(stage.read(artifact))
    finish(artifact)


def _print(found: TokenizerComparison) -> None:
    from rich.console import Console

    from osler.report.terminal import table_rich
    from osler.stages.vocab.view import tables

    console = Console(highlight=False)
    for _, some in tables(found, _TERMS_ON_SCREEN):
        for table in some:
            made = table_rich(table)
            for column in made.columns:
                column.overflow = "fold"  # a name or a cut that is cut short says nothing
            console.print(made)
