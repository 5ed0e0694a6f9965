"""Count sentences, tokens and characters of documents.

Workers count while they clean: `clean_part` calls `counts_of` on the text that was read and, if more than its surrounding whitespace
changed, on the text that is kept. The counts of the workers are only summed up at the end.
"""

from __future__ import annotations

from typing import NamedTuple

from osler.text.sentences import LANGUAGES, sentences


class TextCounts(NamedTuple):
    """Counts of one text. Words are separated by whitespace."""

    sentences: int
    words: int
    characters: int


def counts_of(text: str, language: str | None, words: int = 0) -> TextCounts:
    """Count one text; its words only if they are not known. Languages without rules for sentences are split by the English ones."""
    rules = language if language in LANGUAGES else "en"
    return TextCounts(len(sentences(text, rules)), words or len(text.split()), len(text))
