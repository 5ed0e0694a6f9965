"""Recipes of the prepare stage: prepare a task, write a task card, convert files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from osler.core.config import Recipe, runtime
from osler.tasks.card import Kind, TaskName


class PrepareRecipe(Recipe):
    """Prepare a task from its official files."""

    later: ClassVar = ("release",)

    task: str
    """Name of a task, or path to its card."""
    source: Path | None = runtime(None)
    """Folder or archive with the official files; not needed for the synthetic clinic's tasks."""
    fold: int | None = Field(None, ge=1)
    """Fold to prepare, for a task with folds."""
    release: str | None = None
    """Release to prepare, for a task with several; detected from the files if not set."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the card's source, overriding those in the card, such as the number of synthetic notes."""


class DiscoverRecipe(Recipe):
    """Inspect annotated data and write a task card for it."""

    name: TaskName
    """Name for the task: lower-case letters, digits and hyphens."""
    source: Path = runtime()
    """A file, a folder or an archive."""
    format: str | None = None
    """Format of the files; detected if not set."""
    kind: Kind | None = None
    """Kind of task; by default the richest annotation decides."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the format, such as the column names of a table."""


class ConvertRecipe(Recipe):
    """Convert annotation files from one format to another."""

    input: Path = runtime()
    """A file, a folder or an archive."""
    from_format: str | None = None
    """Format of the input; detected if not set."""
    to_format: str
    """Format to write."""
    tolerant: bool = False
    """Continue after defects of the input instead of stopping, and report what was found, where, and what was kept."""
    read: dict[str, Any] = Field(default_factory=dict)
    """Options of the input format, such as `unit` of conll or the column names of csv."""
    write: dict[str, Any] = Field(default_factory=dict)
    """Options of the output format, such as `scheme` of conll."""
