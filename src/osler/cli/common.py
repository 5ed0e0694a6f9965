"""Shared by all commands: options generated from a recipe class, the plan, the result line, and errors about output files."""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer

if TYPE_CHECKING:
    from osler.core.artifact import Artifact
    from osler.core.config import Recipe


def _recipe_names(incomplete: str) -> list[str]:
    """Complete the names of shipped recipes in the shell."""
    from osler.core.config import shipped_recipes

    return [name for name in shipped_recipes() if name.startswith(incomplete)]


RecipeOption = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        "-r",
        metavar="RECIPE",
        autocompletion=_recipe_names,
        help="A TOML recipe: a path, or a shipped one such as demo/pretrain.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override one value of the recipe: train.lr=3e-5. A list is written a,b,c. With nothing after =, drop the "
        "value. Repeat for several.",
    ),
]
OutOption = Annotated[Path, typer.Option("--out", "-o", help="The folder to make.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace what is in --out.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")]


@dataclass
class Invocation:
    """One call of a command: its recipe, the values from the command line, and the output path."""

    kind: type[Recipe]
    recipe: str | None
    sets: Sequence[str]
    options: dict[str, Any]
    """Values by recipe key; None where the option was not given."""
    flags: dict[str, str]
    """Recipe keys as the command line names them: `--bundle`, `the argument FILES`."""
    out: Path
    force: bool
    dry_run: bool

    def resolve(self) -> Any:
        """Build the recipe from its file, then the options, then --set."""
        from osler.core.config import find_recipe, load_recipe

        path = find_recipe(self.recipe) if self.recipe else None
        return load_recipe(self.kind, path, self.sets, self.options, self.flags)

    def perform(
        self, plan: Callable[..., Sequence[str]], run: Callable[..., Artifact], *, out: Path | None = None
    ) -> Artifact | None:
        """Resolve the recipe, print the plan, run it, and print the result line."""
        from osler.core.artifact import is_free

        recipe, out = self.resolve(), out or self.out
        # Whatever stops a run before it starts also stops a dry run.
        taken = self.dry_run and not self.force and not is_free(out)
        reused = [f"{out} is there already: reused if recipe and inputs are the same, else replaced only with --force"]
        announce([*plan(recipe, out), *(reused if taken else [])], dry_run=self.dry_run)
        if self.dry_run:
            return None
        artifact = run(recipe, out, force=self.force)
        finish(artifact)
        return artifact


def recipe_command(
    kind: type[Recipe],
    *,
    out: str | None,
    argument: str | None = None,
    options: Mapping[str, str] = types.MappingProxyType({}),
    argument_help: str | None = None,
    makes: bool = True,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn `function(invocation, own options…)` into a command whose other options come from a recipe class.

    `argument` and the keys of `options` are recipe keys; their types and help texts come from the recipe. The values of `options`
    are the flags, separated by spaces; an empty string stands for `--key`. With `out=None`, --out is optional, and the invocation's
    `out` is the empty path without it. A command that makes nothing (`makes=False`) has neither --out nor --force.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        keys: dict[str, str] = {}
        shown: dict[str, str] = {}
        parameters = []
        for key in [argument, *options] if argument else options:
            keys[name := key.replace(".", "__")] = key
            flags = (
                None if key == argument else options[key].split() or [f"--{key.rpartition('.')[2].replace('_', '-')}"]
            )
            shown[key] = flags[0].partition("/")[0] if flags else f"the argument {key.upper()}"
            text = argument_help if key == argument else None
            parameters.append(_parameter(kind, key, name, flags, text))
        where = Annotated[Path | None, typer.Option("--out", "-o", help="The file or folder to make.")]
        shared = {
            "out": OutOption if out else where,
            "recipe": RecipeOption,
            "sets": SetOption,
            "force": ForceOption,
            "dry_run": DryRunOption,
        }
        if not makes:
            del shared["out"], shared["force"]
        defaults = {"out": Path(out) if out else None, "recipe": None, "sets": None, "force": False, "dry_run": False}
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        parameters += [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=annotation)
            for name, annotation in shared.items()
        ]

        def command(**given: Any) -> None:
            values = {key: given.pop(name) for name, key in keys.items()}
            # An empty list means that the option was not given. False is kept: it is a flag such as --folders.
            values = {key: None if value == [] else value for key, value in values.items()}
            common = {"force": False, **{name: given.pop(name) for name in shared}}
            sets, place = common.pop("sets") or (), common.pop("out", None) or Path()
            function(Invocation(kind=kind, sets=sets, options=values, flags={**shown}, out=place, **common), **given)

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate


def _parameter(kind: type[Recipe], key: str, name: str, flags: list[str] | None, text: str | None) -> inspect.Parameter:
    """Make the option for a recipe key or, without flags, the argument."""
    from osler.core.config import find_field

    annotation, description = find_field(kind, key)
    text = text or description.partition(". ")[0].removesuffix(".") + "."
    text = text[:1].upper() + text[1:]
    type_ = _option_type(annotation)
    made = typer.Option(*flags, help=text) if flags else typer.Argument(help=text, metavar=key.upper())
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[type_ | None, made],
    )


def metavar(type_: Any) -> str | None:
    """Return the metavar of an option's type, or None for typer's default."""
    item = get_args(type_)[0] if get_origin(type_) is list else type_
    return {int: "INTEGER", float: "NUMBER", str: "TEXT", Path: "PATH"}.get(item)


def _option_type(annotation: Any) -> Any:
    """Return the type that typer parses a recipe value as. The recipe validates it further."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    if get_origin(annotation) is Annotated:
        return _option_type(get_args(annotation)[0])
    if get_origin(annotation) in (tuple, list):
        return list[_option_type(get_args(annotation)[0])]  # type: ignore[misc]
    if get_origin(annotation) is dict:
        return list[str]  # repeated KEY=VALUE, parsed by the recipe
    if get_origin(annotation) is Literal or annotation not in (str, int, float, bool, Path):
        return str
    return annotation


def announce(lines: Sequence[str], *, dry_run: bool) -> None:
    """Print the plan, unless --quiet is set."""
    from osler.core.console import console, quiet

    if quiet() and not dry_run:
        return
    for line in lines:
        console().print(f"  {line}", style="dim", markup=False)
    if dry_run:
        console().print("  dry run: nothing was done", style="dim")


def finish(artifact: Artifact) -> None:
    """Print the result line of a stage."""
    from osler.core.console import console

    numbers = " · ".join(
        f"{key.replace('_', ' ')} {value:,}" if isinstance(value, int) else f"{key.replace('_', ' ')} {value:,.4g}"
        for key, value in artifact.manifest.counts.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    )
    verb = "reused" if artifact.reused else "made"
    console().print(f"[bold green]✓[/] {artifact.manifest.kind} {verb}: {numbers}")
    # Only the path goes to standard output, so that scripts can read it.
    if os.environ.get("RANK", "0") == "0":
        typer.echo(os.path.relpath(artifact.path) if artifact.path.is_relative_to(Path.cwd()) else str(artifact.path))


@contextmanager
def writing_to(path: Path, option: str) -> Iterator[None]:
    """Make errors about writing `path` name this option instead of --out."""
    from osler.core.errors import OutputError, writing

    try:
        with writing(path):
            yield
    except OutputError as error:
        fix = (error.fix or "").replace("--out", option)
        raise OutputError(error.problem, where=error.where, fix=fix) from None
