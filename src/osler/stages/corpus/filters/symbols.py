"""Remove documents that are mostly punctuation and other symbols."""

from __future__ import annotations

from pydantic import Field

from osler.stages.corpus.documents import RepairedDocument
from osler.stages.corpus.filters import Filter
from osler.text.characters import ALPHANUMERIC, SPACES


class Symbols(Filter):
    """Bound on the share of characters that are neither letters nor digits."""

    max_share: float = Field(0.3, ge=0, le=1)
    """Maximum share of symbols, whitespace not counted."""

    def reason(self, document: RepairedDocument) -> str | None:
        text = document.text
        visible = len(text) - SPACES.count(text)
        return "max_share" if visible - ALPHANUMERIC.count(text) > self.max_share * visible else None
