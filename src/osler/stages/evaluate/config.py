"""The recipe of an evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from osler.core.config import Recipe, assignments, runtime
from osler.core.models import BundleFolder


class EvaluateRecipe(Recipe):
    """Evaluate one head of a bundle on a split of a task."""

    later: ClassVar = ("label_map", "seen")

    bundle: BundleFolder = runtime()
    """A bundle folder, or the name of an installed model."""
    task: Path = runtime()
    """A task folder."""
    head: str | None = None
    """Head to use; by default the one trained on the task."""
    split: str = "test"
    """Split to score; test by default."""
    protocol: str | None = None
    """Protocol to score under; by default the one the head was trained under."""
    label_map: Annotated[dict[str, str], BeforeValidator(assignments)] = Field(default_factory=dict)
    """Map from head labels to task labels, for a head of another corpus: HEAD=TASK. Repeat for several labels."""
    seen: bool = False
    """Also score mentions by whether their form is annotated in a training split, ignoring case."""
    seen_in: tuple[Path, ...] = runtime(())
    """Tasks whose training splits count as seen; by default the task itself. For a head of another task, give that task."""
    errors: bool = False
    """Also write the errors: a page with document text, plus a list and counts without text."""
    error_documents: int = Field(200, ge=1)
    """Maximum number of documents on the error page."""
    device: str = runtime("auto", description="auto, cpu, cuda or cuda:N")

    def identity(self) -> dict[str, Any]:
        """Return the identity, without the error settings if no errors are written."""
        values = super().identity()
        if not self.errors:
            del values["errors"], values["error_documents"]
        return values
