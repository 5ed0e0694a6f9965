"""What every command shares: its options, the plan before the work, the one line after it, and how errors reach the user."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osler.core.errors import OslerError

if TYPE_CHECKING:
    from osler.core.artifact import Artifact
    from osler.core.config import Recipe

RecipeOption = Annotated[
    str | None, typer.Option("--recipe", "-r", help="A TOML recipe: a path, or a shipped one such as demo/pretrain.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override one value of the recipe: a.b=c; a.b= takes it back. May be repeated."),
]
OutOption = Annotated[Path, typer.Option("--out", "-o", help="The folder to make.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace what is in --out.")]
StepsOption = Annotated[int | None, typer.Option("--steps", help="Updates.")]
BudgetOption = Annotated[
    str | None, typer.Option("--budget", help="Instead of --steps: a time such as 25m, or work such as 1e18flop.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and stop.")]


def until(steps: int | None, budget: str | None) -> dict[str, Any]:
    """The options of a run's end: one that is given takes the place of what the recipe says, also of the other."""
    from osler.core.config import LEFT_OUT

    if steps is not None and budget is None:
        return {"train.steps": steps, "train.budget": LEFT_OUT}
    if budget is not None and steps is None:
        return {"train.budget": budget, "train.steps": LEFT_OUT}
    return {"train.steps": steps, "train.budget": budget}


def perform(
    kind: type[Recipe],
    plan: Callable[..., Sequence[str]],
    run: Callable[..., Artifact],
    *,
    recipe: str | None,
    sets: Sequence[str] | None,
    options: Mapping[str, Any],
    out: Path,
    force: bool,
    dry_run: bool,
) -> Artifact | None:
    """Resolve the recipe, say what will be done, do it, and say in one line what was made and where."""
    resolved = resolve(kind, recipe, sets, options)
    announce(plan(resolved, out), dry_run=dry_run)
    if dry_run:
        return None
    artifact = run(resolved, out, force=force)
    finish(artifact)
    return artifact


def resolve(kind: type[Recipe], recipe: str | None, sets: Sequence[str] | None, options: Mapping[str, Any]) -> Recipe:
    """The recipe of a command: its file, its options, its overrides."""
    from osler.core.config import find_recipe, load_recipe

    return load_recipe(kind, find_recipe(recipe) if recipe else None, sets or (), options)


def announce(lines: Sequence[str], *, dry_run: bool) -> None:
    """Print the plan."""
    from osler.core.console import console

    for line in lines:
        console().print(f"  {line}", style="dim", markup=False)
    if dry_run:
        console().print("  dry run: nothing was done", style="dim")


def finish(artifact: Artifact) -> None:
    """Print the one line a stage ends with."""
    from osler.core.console import console

    verb = "reused" if artifact.reused else "made"
    numbers = " · ".join(
        f"{_name(key)} {_number(value)}" for key, value in artifact.manifest.counts.items() if _is_number(value)
    )
    console().print(f"[bold green]✓[/] {artifact.manifest.kind} {verb}: {numbers}")
    # The path goes to standard output, so that a script can take it.
    if os.environ.get("RANK", "0") == "0":
        typer.echo(os.path.relpath(artifact.path) if artifact.path.is_relative_to(Path.cwd()) else str(artifact.path))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _name(key: str) -> str:
    return key.replace("_", " ")


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def guarded(app: Callable[[], None]) -> None:
    """Run the command line; every failure ends in one clear message and never in document text."""
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
        # The message of an unforeseen error may quote a document (a parser's, a database's), so it is not shown.
        _fail(
            f"internal error ({type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}). "
            "Its message is hidden because it may quote a document; set OSLER_DEBUG=1 to see it, and please report it.",
            1,
        )


def _fail(message: str, code: int) -> None:
    typer.secho(f"error: {message}", fg=typer.colors.RED, err=True)
    sys.exit(code)
