"""The recipe of a study: models x tasks x seeds, under one set of fine-tuning settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from osler.core.config import Recipe, runtime


class StudyModel(Recipe):
    """One row of the table."""

    model: str = runtime()
    """An encoder folder, a bundle folder or a hub name."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Fine-tuning settings of this model alone, on top of the study's: `reinitialise = true`, another rate."""


class StudyRecipe(Recipe):
    """Every model is fine-tuned on every task with every seed; each run is done once and kept."""

    title: str = "Study"
    models: dict[str, StudyModel] = Field(min_length=1)
    tasks: tuple[Path, ...] = runtime(min_length=1)
    """Task artifacts, each a column."""
    seeds: tuple[int, ...] = Field((1, 2, 3), min_length=1)
    baseline: str | None = None
    """The model others are compared with; by default the first."""
    finetune: dict[str, Any] = Field(default_factory=dict)
    """Fine-tuning settings of all runs, as in a fine-tuning recipe."""
    split: str = "test"
    resamples: int = Field(2000, ge=100)
    """Draws of the paired bootstrap."""
    store: Path | None = runtime(None)
    """Where finished runs are kept, so that a later study with one more model only does the new ones; by default beside --out."""
    workers: int = runtime(1, ge=1)
    """Runs at the same time, each in a process of its own."""
