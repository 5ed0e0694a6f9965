"""Remove documents with few terms of a list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from osler.core.config import runtime
from osler.stages.corpus.documents import RepairedDocument
from osler.stages.corpus.filters import Filter
from osler.text.terms import term_list, terms_digest


class Terms(Filter):
    """Bound on the term density of a document: the share of its words that are part of a term."""

    terms: Path = runtime()
    """Text file with one term per line. Case, accents and punctuation do not matter."""
    min_share: float = Field(gt=0.0, le=1.0)
    """Minimum term density of a document."""

    def identity(self) -> dict[str, Any]:
        """Return the identity, with the terms instead of the path of their file."""
        return super().identity() | {"terms": terms_digest(self.terms)}

    def check(self) -> None:
        term_list(self.terms)

    def reason(self, document: RepairedDocument) -> str | None:
        return "min_share" if term_list(self.terms).density([document.text])[0] < self.min_share else None
