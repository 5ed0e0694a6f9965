"""The recipe of an evaluation."""

from __future__ import annotations

from pathlib import Path

from osler.core.config import Recipe, runtime


class EvaluateRecipe(Recipe):
    """Which head of which bundle on which split of which task."""

    bundle: Path = runtime()
    task: Path = runtime()
    """A task artifact."""
    head: str | None = None
    """The head to use; by default the one named like the task."""
    split: str = "test"
    protocol: str | None = None
    """The protocol to score under; by default the one the head was taught under."""
    device: str = runtime("auto")
