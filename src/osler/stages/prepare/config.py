"""Recipes of the prepare stage: prepare a task, write a card for your own data, convert files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from osler.core.config import Recipe, runtime
from osler.tasks.card import Kind, TaskName


class PrepareRecipe(Recipe):
    """Which task to prepare, and from which files."""

    later: ClassVar = ("release",)

    task: str
    """Name of a task, or path of its card."""
    source: Path | None = runtime(None)
    """Folder or archive with the official files; not needed for tasks of the synthetic clinic."""
    fold: int | None = Field(None, ge=1)
    """Which fold, for a task with folds."""
    release: str | None = None
    """Which release, for a task with several; found by its files if not set."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the card's source, on top of those in the card, such as the number of synthetic notes."""


class DiscoverRecipe(Recipe):
    """Which data to look at, and what is known about it."""

    name: TaskName
    """A name for the task: lower-case letters, digits and hyphens."""
    source: Path = runtime()
    """A file, a folder or an archive."""
    format: str | None = None
    """Format of the files; detected if not set."""
    kind: Kind | None = None
    """Kind of task; without it, the richest annotation decides."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the format, such as the column names of a table."""


class ConvertRecipe(Recipe):
    """Which files to convert, from which format to which."""

    input: Path = runtime()
    """A file, a folder or an archive."""
    from_format: str | None = None
    """Format of the input; detected if not set."""
    to_format: str
    """The format to write."""
    tolerant: bool = False
    """Continue after a defect of the input instead of stopping: the result says what was found, where, and what was kept."""
    read: dict[str, Any] = Field(default_factory=dict)
    """Options of the input format, such as `unit` of conll or the column names of csv."""
    write: dict[str, Any] = Field(default_factory=dict)
    """Options of the output format, such as `scheme` of conll."""
