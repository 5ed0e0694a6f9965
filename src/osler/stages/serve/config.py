"""Recipes of the serve stage: annotate files, export a head."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from osler.core.config import Recipe, runtime


class AnnotateRecipe(Recipe):
    """Annotate files with a bundle."""

    files: tuple[Path, ...] = runtime(min_length=1)
    """Text files (one document each), JSON Lines files (one document per line), or folders of them."""
    bundle: Path = runtime()
    """A bundle folder."""
    heads: tuple[str, ...] = ()
    """Heads to use; by default all that read documents."""
    language: str | None = None
    """Use only heads for this language; a bundle may have an English and a Spanish head for the same entities."""
    format: Literal["jsonl", "brat"] = "jsonl"
    """jsonl or brat."""
    batch: int = runtime(64, ge=1)
    """Documents per batch."""
    device: str = runtime("auto", description="auto, cpu, cuda or cuda:N")
    min_score: float = Field(0.0, ge=0.0, le=1.0)
    """Leave out entities and relations with a lower score."""


class ExportRecipe(Recipe):
    """Export one head of a bundle."""

    bundle: Path = runtime()
    """A bundle folder."""
    head: str | None = None
    """The head to export; not needed if the bundle has only one."""
    to: Literal["hf"] = "hf"
    """The target: hf, a stock Hugging Face model."""
