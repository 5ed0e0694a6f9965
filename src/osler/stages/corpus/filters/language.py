"""Remove documents in other languages."""

from __future__ import annotations

from pydantic import Field

from osler.stages.corpus.documents import RepairedDocument
from osler.stages.corpus.filters import Filter
from osler.text.language import check_model, identify


class Language(Filter):
    """Which languages are kept."""

    languages: tuple[str, ...] = ()
    """Languages to keep; by default the stated language of the document or its source. Documents without one are then kept."""
    min_confidence: float = Field(0.3, ge=0, le=1)
    """Remove documents whose language is recognised with no more than this confidence."""

    def check(self) -> None:
        check_model()

    def reason(self, document: RepairedDocument) -> str | None:
        wanted = self.languages or ((document.language,) if document.language else ())
        if not wanted:
            return None
        found = identify(document.text)
        if found.language not in wanted:
            return "languages"
        return None if found.confidence > self.min_confidence else "min_confidence"
