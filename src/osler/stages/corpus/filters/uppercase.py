"""Remove documents that are mostly in capitals."""

from __future__ import annotations

from pydantic import Field

from osler.stages.corpus.documents import RepairedDocument
from osler.stages.corpus.filters import Filter
from osler.text.characters import UPPER


class Uppercase(Filter):
    """Bound on the share of capitals."""

    max_share: float = Field(0.4, ge=0, le=1)
    """Maximum share of capitals among all characters, spaces included. Some hospitals write whole notes in capitals."""

    def reason(self, document: RepairedDocument) -> str | None:
        text = document.text
        return "max_share" if UPPER.count(text) > self.max_share * len(text) else None
