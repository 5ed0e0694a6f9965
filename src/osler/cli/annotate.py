"""`osler annotate`: raw text to entities, relations and labels."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from osler.cli.common import DryRunOption, ForceOption, RecipeOption, SetOption, announce, finish, resolve


def annotate(
    files: Annotated[list[Path] | None, typer.Argument(help="Text or JSON Lines files, or folders of them.")] = None,
    bundle: Annotated[Path | None, typer.Option("--bundle", "-b", help="A bundle folder.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A folder to make; without it JSON Lines go to standard output.")
    ] = None,
    format: Annotated[str | None, typer.Option("--format", "-f", help="jsonl or brat.")] = None,
    min_score: Annotated[float | None, typer.Option("--min-score", help="Leave out what scores lower.")] = None,
    heads: Annotated[list[str] | None, typer.Option("--head", help="Use this head only. May be repeated.")] = None,
    language: Annotated[str | None, typer.Option("--language", help="Use only heads taught in this language.")] = None,
    recipe: RecipeOption = None,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Annotate raw text with every head of a bundle: offsets and scores out."""
    from osler.core.errors import RecipeError
    from osler.stages.serve.annotate import AnnotateRecipe, plan, run, stream

    options = {
        "files": files or None,
        "bundle": bundle,
        "format": format,
        "min_score": min_score,
        "heads": heads or None,
        "language": language,
    }
    resolved = resolve(AnnotateRecipe, recipe, sets, options)
    assert isinstance(resolved, AnnotateRecipe)
    if out is None and resolved.format != "jsonl":
        raise RecipeError(f"{resolved.format} is a folder of files", fix="Give --out")
    announce(plan(resolved, out), dry_run=dry_run)
    if dry_run:
        return
    if out is None:
        stream(resolved, sys.stdout)
    else:
        finish(run(resolved, out, force=force))
