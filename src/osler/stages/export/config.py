"""The recipe of an export."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from osler.core.config import Recipe, runtime


class ExportRecipe(Recipe):
    """Which head of which bundle, as what."""

    bundle: Path = runtime()
    head: str | None = None
    """The head to export; may be left out where the bundle has only one."""
    to: Literal["hf"] = "hf"
