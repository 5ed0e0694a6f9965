"""The recipe of a prepared task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from osler.core.config import Recipe, runtime


class PrepareRecipe(Recipe):
    """Which task, from where."""

    task: str
    """The name of a task, or the path of its card."""
    source: Path | None = runtime(None)
    """The folder or archive with the official files; not needed for tasks of the synthetic clinic."""
    fold: int | None = Field(None, ge=1)
    """Which fold, for a task that has them."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the card's source, on top of those in the card (how many notes the clinic writes, say)."""
