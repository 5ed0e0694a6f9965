"""Models that are installed as Python packages: found by the entry point group `osler.models`, so nothing is downloaded.

A package names the folder of its bundle, for example `osler-compact = "osler_compact:FOLDER"`.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from osler.core.errors import RecipeError

_GROUP = "osler.models"


def installed_models() -> list[str]:
    """Names of the installed models, sorted."""
    return sorted(_entries())


def find_model(name: str) -> Path | None:
    """Folder of an installed model; None if there is none of this name."""
    entry = _entries().get(name)
    return None if entry is None else Path(entry.load())


def default_model() -> Path:
    """Folder of the only installed model."""
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
    """A folder from a path, the name of an installed model, or nothing: the only installed model. For validators."""
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
