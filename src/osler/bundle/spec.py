"""What a bundle knows about its heads: enough to turn raw text into predictions without the task's data."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from osler.core.config import Recipe
from osler.core.errors import ArtifactError
from osler.core.files import write_atomic
from osler.tasks.card import TaskCard
from osler.tasks.instances.options import HeadOptions

FILE = "bundle.json"


class HeadSpec(Recipe):
    """One head: the task it was taught and the protocol it was taught under."""

    card: TaskCard
    protocol: str
    options: HeadOptions = HeadOptions()
    members: dict[str, str] | None = None
    """Of a head that several tasks taught: those tasks, and the protocol of each. `card` then has the labels of all of them."""


class BundleSpec(Recipe):
    """All heads, and how documents are cut for every one of them."""

    max_length: int
    overlap: int
    heads: dict[str, HeadSpec]

    def save(self, folder: Path) -> None:
        """Write `bundle.json`."""
        write_atomic(folder / FILE, self.model_dump_json(indent=2, exclude_none=True) + "\n")

    @classmethod
    def load(cls, folder: Path) -> BundleSpec:
        """Read `bundle.json`."""
        path = folder / FILE
        if not path.is_file():
            raise ArtifactError(f"no {FILE} here", where=folder, fix="Give the folder that osler finetune made")
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except ValidationError as error:
            first = error.errors()[0]
            place = "".join(f"{part}: " for part in first["loc"])
            raise ArtifactError(f"damaged: {place}{first['msg']}", where=path, fix="Make the bundle again") from None
