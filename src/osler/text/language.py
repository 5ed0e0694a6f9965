"""Guess whether text is English, Spanish or French by its most common words."""

from __future__ import annotations

import re
from collections import Counter

# Common words that the three languages do not share, so that every hit counts for one of them.
_COMMON = {
    "en": "the and of to with was for is that were by from at has had are this she he which be or it",
    "es": "el los las del una por con para como fue se al su y lo entre desde sin sobre muy años este",
    "fr": "le les des du et une dans est avec pour sur au par qui ne pas ce cette sans chez aux ans il elle",
}
_OWNER = {word: language for language, words in _COMMON.items() for word in words.split()}
_WORD = re.compile(r"[^\W\d_]+")
LANGUAGE_NAMES = {"en": "English", "es": "Spanish", "fr": "French"}
# With fewer hits, or a smaller share of them, a few names or quoted words could decide.
_SURE_HITS = 8
_SURE_SHARE = 0.8


class LanguageGuess:
    """The language of the common words in the first 200,000 characters of all texts."""

    def __init__(self) -> None:
        self._left = 200_000
        self._hits: Counter[str] = Counter()

    def add(self, text: str) -> None:
        if self._left > 0:
            part = text[: self._left]
            self._left -= len(part)
            self._hits.update(_OWNER[word] for word in _WORD.findall(part.lower()) if word in _OWNER)

    @property
    def language(self) -> str:
        """The language with most hits; English if there are none."""
        return max(_COMMON, key=lambda name: self._hits[name])

    @property
    def sure(self) -> str | None:
        """The language if there are enough hits and nearly all are its own, else None."""
        own = self._hits[self.language]
        return self.language if own >= max(_SURE_HITS, _SURE_SHARE * self._hits.total()) else None

    def __str__(self) -> str:
        if not self._hits:
            return "no common word of English, Spanish or French found"
        own, found = self._hits[self.language], self._hits.total()
        return f"{own:,} of {found:,} common words are {LANGUAGE_NAMES[self.language]}"
