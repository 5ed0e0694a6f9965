"""Medical terms that tokenizers are compared on."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

from osler.artifacts.corpus import CorpusText
from osler.text.words import words

_AROUND = 3
"""Letters that a word must have in addition to a medical stem or ending."""
_ALONE = 6
"""An ending of this many letters may also be the complete word (`estatina`, `hépatite`)."""


@dataclass(frozen=True, slots=True)
class Term:
    """A term, and how often it occurs."""

    text: str
    documents: int
    occurrences: int
    spelling: str
    """Its most frequent capitalisation in the corpus. A term list may use another, but tokenizers see the corpus."""

    @property
    def words(self) -> int:
        return len(self.text.split())


class TermCount:
    """Counts the terms of a list, or else words with medical stems or endings."""

    def __init__(self, given: Iterable[str] | None = None) -> None:
        self._documents: Counter[str] = Counter()
        self._spellings: dict[str, Counter[str]] = {}
        self._medical_words: dict[tuple[str, str | None], list[str]] = {}
        # Terms of the list with their words in lower case, by first word.
        self._listed_terms: dict[str, list[tuple[list[str], str]]] = {}
        self._has_list = given is not None
        for term in given or ():
            parts = [word.lower() for word in _words(term)]
            self._listed_terms.setdefault(parts[0], []).append((parts, term))

    def add(self, document: CorpusText) -> None:
        here = set()
        for term, spelling in self._listed(document) if self._has_list else self._medical(document):
            here.add(term)
            self._spellings.setdefault(term, Counter())[spelling] += 1
        self._documents.update(here)

    def terms(self, min_documents: int) -> list[Term]:
        """Terms that occur in enough documents, most frequent first, ties in code point order."""
        common = []
        for text, documents in self._documents.items():
            if documents >= min_documents:
                spellings = self._spellings[text]
                usual = min(spellings, key=lambda spelling: (-spellings[spelling], spelling))
                common.append(Term(text, documents, spellings.total(), usual))
        return sorted(common, key=lambda term: (-term.occurrences, term.text))

    @property
    def seen(self) -> int:
        """Number of terms that occur at all."""
        return len(self._documents)

    def _listed(self, document: CorpusText) -> Iterator[tuple[str, str]]:
        """Terms of the list and their spelling, matched word by word in any capitalisation."""
        written = _words(unicodedata.normalize("NFC", document.text))
        lower = [word.lower() for word in written]
        for index, word in enumerate(lower):
            for parts, term in self._listed_terms.get(word, ()):
                if lower[index : index + len(parts)] == parts:
                    yield term, _respelled(term, written[index : index + len(parts)])

    def _medical(self, document: CorpusText) -> Iterator[tuple[str, str]]:
        for string in document.text.split():
            key = (string, document.language)
            found = self._medical_words.get(key)
            if found is None:
                candidates = _words(unicodedata.normalize("NFC", string))
                found = [word for word in candidates if is_medical(word, document.language)]
                self._medical_words[key] = found
            for term in found:
                yield term, term


def is_medical(word: str, language: str | None) -> bool:
    """Whether a word in lower case has a medical stem or ending of its language (of any, if the language is not known)."""
    if len(word) <= _AROUND or not word.isalpha() or not word.islower():
        return False
    pattern, everyday = _rule(language if language in _parts() else None)
    folded = _fold(word)
    if pattern.fullmatch(folded) is None:
        return False
    return everyday.isdisjoint({folded, folded.removesuffix("s"), folded.removesuffix("es")})


def _fold(word: str) -> str:
    """Lower case without accents: `nefropatía` and `nefropatia` become the same."""
    decomposed = unicodedata.normalize("NFD", word.lower())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


@cache
def _parts() -> dict[str, dict[str, list[str]]]:
    text = resources.files("osler.stages.vocab").joinpath("data/medical_parts.toml").read_text("utf-8")
    return tomllib.loads(text)


@cache
def _rule(language: str | None) -> tuple[re.Pattern[str], frozenset[str]]:
    chosen = [_parts()[language]] if language else list(_parts().values())

    def folded(key: str) -> list[str]:
        return sorted({_fold(part) for parts in chosen for part in parts[key]})

    begins, ends = "|".join(folded("beginnings")), "|".join(folded("endings"))
    alone = "|".join(part for part in folded("endings") if len(part) >= _ALONE)
    letter = r"[^\W\d_]"
    around = f"{letter}{{{_AROUND},}}"
    pattern = re.compile(f"(?:{begins}){around}|{around}(?:{ends})(?:e?s)?|{letter}*(?:{alone})(?:e?s)?")
    return pattern, frozenset(folded("everyday"))


def _respelled(term: str, written: list[str]) -> str:
    """Respell the words of a term as in the corpus; the characters between them stay."""
    made, end = "", 0
    for (start, stop), word in zip(words(term), written, strict=True):
        made += term[end:start] + word
        end = stop
    return made + term[end:]


def _words(text: str) -> list[str]:
    return [text[start:end] for start, end in words(text)]
