"""The recipe of a study: models x tasks x grid x seeds, under named protocols."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from osler.core.config import Recipe, runtime


class Refinement(Recipe):
    """Several tasks taught to a model together before it is fine-tuned on each (peng2020)."""

    tasks: tuple[str, ...] = Field(min_length=2)
    """Names of columns of the study."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Fine-tuning settings of the refinement, on top of the study's."""


class StudyModel(Recipe):
    """One row of the table."""

    model: str = runtime()
    """An encoder folder, a bundle folder or a hub name."""
    refine: Refinement | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    """Fine-tuning settings of this model alone, on top of the study's: `reinitialise = true`, another rate."""
    task_settings: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """By column: settings of this model on this task, on top of all others (wada2020's tables)."""


class StudyRecipe(Recipe):
    """Every model is fine-tuned on every task with every grid point and seed; each run is done once and kept."""

    title: str = "Study"
    models: dict[str, StudyModel] = Field(min_length=1)
    tasks: tuple[Path, ...] = runtime(())
    """Task artifacts, each a column."""
    folds: dict[str, tuple[Path, ...]] = runtime(default_factory=dict)
    """Columns that are cross-validated: a name, and the task artifacts of its folds; the column is the mean over folds."""
    seeds: tuple[int, ...] = Field((1, 2, 3), min_length=1)
    grid: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Settings to try, by dotted name: `"train.lr" = [1e-5, 3e-5]`. All combinations are run."""
    choose: Literal["settings", "run"] = "settings"
    """What dev decides: one grid point for all seeds by its mean on dev, or the single best run (carrino2022)."""
    modes: tuple[Literal["single", "together", "pairs"], ...] = ("single",)
    """Each task alone; all tasks in one run (mulyar2020); every pair of tasks in one run (peng2020, pairwise)."""
    fractions: tuple[float, ...] = ()
    """Shares of the training data for learning curves, besides the whole."""
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Groups of columns that get a mean of their own."""
    protocols: dict[str, str] = Field(default_factory=dict)
    """By column: the protocol, where it is not the task's default."""
    baseline: str | None = None
    """The model others are compared with; by default the first."""
    finetune: dict[str, Any] = Field(default_factory=dict)
    """Fine-tuning settings of all runs, as in a fine-tuning recipe."""
    task_settings: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """By column: fine-tuning settings on top of those."""
    split: str = "test"
    layout: Literal["plain", "carrino2022", "lewis2020", "mulyar2020", "peng2020", "wada2020"] = "plain"
    """How the main table is laid out."""
    resamples: int = Field(2000, ge=100)
    """Draws of the paired bootstrap."""
    store: Path | None = runtime(None)
    """Where finished runs are kept, so that a later study with one more model only does the new ones; by default beside --out."""
    engine: Literal["local", "ray"] = runtime("local")
    workers: int = runtime(0, ge=0)
    """Runs at the same time, each in a process of its own; 0 chooses by cores and GPU memory."""
