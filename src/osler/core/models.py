"""Models installed as Python packages, found through the entry point group `osler.models`, so nothing is downloaded.

A package exports the folder of its bundle, for example `osler-compact = "osler_compact:FOLDER"`.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator

from osler.core.errors import RecipeError

_GROUP = "osler.models"


class InstalledModel(NamedTuple):
    """An installed model and the version of its package."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}".rstrip()


def installed_models() -> list[str]:
    """Return the sorted names of the installed models."""
    return sorted(_entries())


def find_model(name: str) -> Path | None:
    """Return the folder of an installed model, or None if there is no such model."""
    entry = _entries().get(name)
    return None if entry is None else Path(entry.load())


def installed_as(folder: str | Path) -> InstalledModel | None:
    """Return the installed model that a bundle folder belongs to, or None."""
    wanted = Path(folder).resolve()
    for name, entry in _entries().items():
        if Path(entry.load()).resolve() == wanted:
            return InstalledModel(name, entry.dist.version if entry.dist else "")
    return None


def bundle_title(folder: str | Path) -> str:
    """Return a display name for a bundle: name and version of an installed model, or the folder as given."""
    return str(installed_as(folder) or folder)


def default_model() -> Path:
    """Return the folder of the only installed model."""
    names = installed_models()
    if len(names) == 1:
        found = find_model(names[0])
        assert found is not None
        return found
    if names:
        raise RecipeError(f"{len(names)} models are installed", fix=f"Choose one with --bundle: {', '.join(names)}")
    raise RecipeError(
        "no bundle is named, and no model is installed", fix="Give --bundle FOLDER, or install a model package"
    )


def model_folder(given: Any) -> Any:
    """Resolve a path, the name of an installed model, or None (the only installed model) to a folder. For validators."""
    if given is None:
        try:
            return default_model()
        except RecipeError as error:
            raise ValueError(f"{error.problem}. {error.fix}") from None
    if not isinstance(given, str | Path) or Path(given).exists():
        return given
    return find_model(str(given)) or given


BundleFolder = Annotated[Path, BeforeValidator(model_folder)]
"""A bundle folder, or the name of an installed model."""


NamedBundle = Annotated[Path | None, BeforeValidator(lambda given: given if given is None else model_folder(given))]
"""A bundle folder, the name of an installed model, or none."""


def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=_GROUP)}
