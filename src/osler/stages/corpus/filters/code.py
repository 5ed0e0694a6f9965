"""Remove documents that look like program code."""

from __future__ import annotations

import re

from pydantic import Field

from osler.stages.corpus.documents import RepairedDocument
from osler.stages.corpus.filters import Filter
from osler.text.characters import CharacterKind

_WORDS = ("var", "function", "const", "if", "else", "script")
_WORD = re.compile(rf"\b(?:{'|'.join(_WORDS)})\b")
_MARKS = CharacterKind(frozenset(";=&[](){}/\\").__contains__, ascii_only=True)


class Code(Filter):
    """Bound on the code score."""

    max_score: float = Field(0.25, ge=0)
    """Maximum code score: JavaScript keywords per word plus code punctuation per character."""

    def reason(self, document: RepairedDocument) -> str | None:
        return "max_score" if looks_like_code(document.text, document.words, self.max_score) else None


def looks_like_code(text: str, words: int, limit: float) -> bool:
    """Whether keywords per word plus marks per character exceed a limit."""
    marks = _MARKS.count(text) / max(1, len(text))
    # Counting substrings is fast and never too low, so few texts need the exact count of words.
    if marks + sum(map(text.count, _WORDS)) / max(1, words) <= limit:
        return False
    return marks + len(_WORD.findall(text)) / max(1, words) > limit
