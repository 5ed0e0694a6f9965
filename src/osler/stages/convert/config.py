"""The recipe of a conversion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from osler.core.config import Recipe, runtime


class ConvertRecipe(Recipe):
    """Which files, from which format, to which."""

    input: Path = runtime()
    """A file, a folder or an archive."""
    from_format: str | None = None
    """The format of the input; seen from its files where it is left out."""
    to_format: str
    tolerant: bool = False
    """Count defects of the input and go on, instead of stopping at the first."""
    read: dict[str, Any] = Field(default_factory=dict)
    """Options of the format that is read, such as `unit` of conll or the column names of csv."""
    write: dict[str, Any] = Field(default_factory=dict)
    """Options of the format that is written, such as `scheme` of conll."""
