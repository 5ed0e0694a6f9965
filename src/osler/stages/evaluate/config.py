"""The recipe of an evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from osler.core.config import Recipe, runtime


class EvaluateRecipe(Recipe):
    """Evaluate one head of a bundle on a split of a task."""

    bundle: Path = runtime()
    """A bundle folder."""
    task: Path = runtime()
    """A task folder."""
    head: str | None = None
    """The head to use; by default the one trained on the task."""
    split: str = "test"
    """The split to score; test by default."""
    protocol: str | None = None
    """The protocol to score under; by default the one the head was trained under."""
    errors: bool = False
    """Also write the errors: a page with document text, and a list and counts without."""
    error_documents: int = Field(200, ge=1)
    """Maximum number of documents on the error page."""
    device: str = runtime("auto", description="auto, cpu, cuda or cuda:N")

    def identity(self) -> dict[str, Any]:
        """Identity without the error settings if no errors are written."""
        values = super().identity()
        if not self.errors:
            del values["errors"], values["error_documents"]
        return values
