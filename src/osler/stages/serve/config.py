"""The recipe of annotating files."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from osler.core.config import Recipe, runtime


class AnnotateRecipe(Recipe):
    """Which texts, with which bundle, written how."""

    files: tuple[Path, ...] = runtime(min_length=1)
    """Text files (one document each), JSON Lines files (one document a line), or folders of them."""
    bundle: Path = runtime()
    heads: tuple[str, ...] = ()
    """The heads to use; without any named, all that read documents."""
    language: str | None = None
    """Use only heads taught in this language: a bundle may hold an English and a Spanish head for the same thing."""
    format: Literal["jsonl", "brat"] = "jsonl"
    batch: int = runtime(64, ge=1)
    """Documents read at once."""
    device: str = runtime("auto")
    min_score: float = Field(0.0, ge=0.0, le=1.0)
    """Leave out entities and relations with a lower score."""
