"""A guess at the language of a corpus from its commonest words. A guess: the card says so, and the user has the last word."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

# Words that the three languages do not share, so that every hit speaks for one of them.
_COMMON = {
    "en": "the and of to with was for is that were by from at has had are this she he which be or it",
    "es": "el los las del una por con para como fue se al su y lo entre desde sin sobre muy años este",
    "fr": "le les des du et une dans est avec pour sur au par qui ne pas ce cette sans chez aux ans il elle",
}
_OWNER = {word: language for language, words in _COMMON.items() for word in words.split()}
_WORD = re.compile(r"[^\W\d_]+")
NAMES = {"en": "English", "es": "Spanish", "fr": "French"}


@dataclass(frozen=True)
class Guess:
    """The likeliest language, and how many of the common words found are its own."""

    language: str
    own: int
    found: int

    def __str__(self) -> str:
        if not self.found:
            return "no common word of English, Spanish or French was found"
        return f"{self.own:,} of {self.found:,} common words found are {NAMES[self.language]}"


class LanguageCount:
    """Counts common words over the texts it is shown, up to a limit that is plenty."""

    def __init__(self, limit: int = 200_000) -> None:
        self._left = limit
        self._hits: Counter[str] = Counter()

    def add(self, text: str) -> None:
        """Count the words of a text."""
        if self._left > 0:
            part = text[: self._left]
            self._left -= len(part)
            self._hits.update(_OWNER[word] for word in _WORD.findall(part.lower()) if word in _OWNER)

    def guess(self) -> Guess:
        """The language with most hits; English where there is none."""
        language = max(_COMMON, key=lambda name: self._hits[name])
        return Guess(language, self._hits[language], self._hits.total())
