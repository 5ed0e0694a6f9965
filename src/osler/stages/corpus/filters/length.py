"""Remove documents that are too short or too long."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from osler.stages.corpus.documents import RepairedDocument
from osler.stages.corpus.filters import Filter


class Length(Filter):
    """Bounds on characters and on whitespace-separated words."""

    min_characters: int = Field(40, ge=0)
    """Minimum characters of a document."""
    max_characters: int | None = Field(None, ge=1)
    """Maximum characters of a document; no limit by default."""
    min_words: int = Field(0, ge=0)
    """Minimum words of a document."""
    max_words: int | None = Field(None, ge=1)
    """Maximum words of a document; no limit by default."""

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        for unit in ("characters", "words"):
            low, high = getattr(self, f"min_{unit}"), getattr(self, f"max_{unit}")
            if high is not None and high < low:
                raise ValueError(f"max_{unit} ({high}) is below min_{unit} ({low})")
        return self

    def reason(self, document: RepairedDocument) -> str | None:
        if len(document.text) < self.min_characters:
            return "min_characters"
        if self.max_characters is not None and len(document.text) > self.max_characters:
            return "max_characters"
        if document.words < self.min_words:
            return "min_words"
        if self.max_words is not None and document.words > self.max_words:
            return "max_words"
        return None
