"""Where shipped recipes live: `recipes/` of a source checkout, or the copy inside an installed wheel."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from osler.core.errors import RecipeError, nearest


@cache
def recipes_folder() -> Path:
    """The folder with the shipped recipes."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "recipes", package.parents[1] / "recipes"):
        if folder.is_dir():
            return folder
    raise RecipeError("the shipped recipes are missing from this installation", fix="Install osler again")


def find_recipe(name: str | Path) -> Path:
    """A recipe by the path of its file, or by its name below the shipped recipes (`demo/pretrain` or `demo/pretrain.toml`)."""
    return Path(name) if Path(name).is_file() else shipped_recipe(name)


def shipped_recipe(name: str | Path) -> Path:
    """A shipped recipe by its name, whatever lies in the current folder."""
    path = Path(name)
    shipped = recipes_folder() / path.with_suffix(".toml")
    if shipped.is_file():
        return shipped
    known = [item.relative_to(recipes_folder()).with_suffix("").as_posix() for item in recipes_folder().rglob("*.toml")]
    close = nearest(str(path.with_suffix("")), known)
    fix = f"Did you mean {close!r}?" if close else "Give a path, or a shipped recipe such as 'demo/pretrain'"
    raise RecipeError("no such recipe", where=path, fix=fix)
