"""Remove documents that are mostly numbers."""

from __future__ import annotations

from pydantic import Field

from osler.stages.corpus.documents import RepairedDocument
from osler.stages.corpus.filters import Filter
from osler.text.characters import DIGITS


class Digits(Filter):
    """Bound on the share of digits."""

    max_share: float = Field(0.1, ge=0, le=1)
    """Maximum share of digits among all characters, spaces included. The published 0.1 removes laboratory tables and drug charts."""

    def reason(self, document: RepairedDocument) -> str | None:
        text = document.text
        return "max_share" if DIGITS.count(text) > self.max_share * len(text) else None
