"""The recipe of a fake distribution."""

from __future__ import annotations

from pydantic import Field

from osler.core.config import Recipe


class SynthesizeRecipe(Recipe):
    """Whose files, and how many."""

    task: str
    """The name of an access-controlled task."""
    n: int = Field(50, ge=4)
    """Records (documents, sentences or pairs) in training; other splits are as large as they are to it in the real release. Fewer than
    four cannot fill every official folder."""
    seed: int = 0
    archives: bool = False
    """Whether the files are packed as they are shipped officially, or lie in plain folders."""
