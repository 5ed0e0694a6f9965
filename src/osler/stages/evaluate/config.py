"""The recipe of an evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

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
    errors: bool = False
    """Whether to write the errors too: a page, which holds the text of documents, and a list and counts, which do not."""
    error_documents: int = Field(200, ge=1)
    """How many documents the error page shows at most."""
    device: str = runtime("auto")

    def identity(self) -> dict[str, Any]:
        """Without errors, how they would be shown is no part of what an evaluation is."""
        values = super().identity()
        if not self.errors:
            del values["errors"], values["error_documents"]
        return values
