"""The medical terms that tokenizers are compared on."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import chain
from pathlib import Path

from osler.artifacts.corpus import CorpusText
from osler.core.errors import InputError
from osler.text.words import words

_AROUND = 3
"""How many letters must stand beside a part."""
_ALONE = 6
"""An ending of so many letters may also be the whole word (`estatina`, `hépatite`)."""


def is_medical(word: str, language: str | None) -> bool:
    """Whether a word is a medical term by its parts: those of its language, or of all where that is not known."""
    if len(word) <= _AROUND or not word.isalpha() or not word.islower():
        return False
    pattern, everyday = _rule(language if language in _parts() else None)
    folded = fold(word)
    if pattern.fullmatch(folded) is None:
        return False
    return everyday.isdisjoint({folded, folded.removesuffix("s"), folded.removesuffix("es")})


def fold(word: str) -> str:
    """Small letters without accents, so that `nefropatía` and `nefropatia` are one."""
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
        return sorted({fold(part) for part in chain.from_iterable(parts[key] for parts in chosen)})

    begins, ends = "|".join(folded("beginnings")), "|".join(folded("endings"))
    alone = "|".join(part for part in folded("endings") if len(part) >= _ALONE)
    letter = r"[^\W\d_]"
    around = f"{letter}{{{_AROUND},}}"
    pattern = re.compile(f"(?:{begins}){around}|{around}(?:{ends})(?:e?s)?|{letter}*(?:{alone})(?:e?s)?")
    return pattern, frozenset(folded("everyday"))


Found = tuple[str, str]
"""A term, and how it is written where it was found."""


@dataclass(frozen=True, slots=True)
class Term:
    """A term, and in how many documents and how often it stands there."""

    text: str
    documents: int
    occurrences: int
    spelling: str
    """Its small letters and capitals as they are most often there: a list may write them otherwise, and it is text that is cut."""

    @property
    def words(self) -> int:
        """Its words, parted by blanks."""
        return len(self.text.split())


class TermCount:
    """Counts terms while the documents pass by: those of a list, or without one those made of medical parts."""

    def __init__(self, given: Iterable[str] | None = None) -> None:
        self._documents: Counter[str] = Counter()
        self._spellings: dict[str, Counter[str]] = {}
        self.given = None if given is None else list(given)
        self._in: Callable[[CorpusText], Iterator[Found]] = _Parts() if self.given is None else _List(self.given)

    def passing(self, texts: Iterable[CorpusText]) -> Iterator[CorpusText]:
        """The same documents, counted on the way."""
        for text in texts:
            here = set()
            for term, spelling in self._in(text):
                here.add(term)
                self._spellings.setdefault(term, Counter())[spelling] += 1
            self._documents.update(here)
            yield text

    def terms(self, min_documents: int) -> list[Term]:
        """The terms that enough documents have, the most frequent first, ties in code point order."""
        common = [
            Term(text, documents, self._spellings[text].total(), _usual(self._spellings[text]))
            for text, documents in self._documents.items()
            if documents >= min_documents
        ]
        return sorted(common, key=lambda term: (-term.occurrences, term.text))

    @property
    def seen(self) -> int:
        """How many terms occur at all, rare ones included."""
        return len(self._documents)


def _usual(spellings: Counter[str]) -> str:
    return min(spellings, key=lambda spelling: (-spellings[spelling], spelling))


def read_terms(path: Path) -> list[str]:
    """The terms of a text file, one a line; blank lines and lines that begin with # do not count."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise InputError("no such file", where=path, fix="Check --terms") from None
    except IsADirectoryError:
        raise InputError("this is a folder", where=path, fix="Give --terms a text file with one term a line") from None
    except UnicodeDecodeError:
        raise InputError("this is not UTF-8 text", where=path, fix="Save the list as UTF-8") from None
    terms = [" ".join(unicodedata.normalize("NFC", line).split()) for line in lines]
    kept = list(dict.fromkeys(term for term in terms if term and not term.startswith("#")))
    if not kept:
        raise InputError("no term in the file", where=path, fix="Write one term a line")
    return kept


class _Parts:
    """Words in small letters that have a medical part; every distinct stretch is looked at once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str | None, str], tuple[str, ...]] = {}

    def __call__(self, text: CorpusText) -> Iterator[Found]:
        for stretch in text.text.split():
            key = (text.language, stretch)
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = tuple(_medical(stretch, text.language))
            for term in found:
                yield term, term


def _medical(stretch: str, language: str | None) -> Iterator[str]:
    stretch = unicodedata.normalize("NFC", stretch)
    for start, end in words(stretch):
        if is_medical(stretch[start:end], language):
            yield stretch[start:end]


class _List:
    """Terms of a list, word by word, in small letters or capitals."""

    def __init__(self, terms: Iterable[str]) -> None:
        self._by_first: dict[str, list[tuple[list[str], str]]] = {}
        for term in terms:
            parts = [word.lower() for word in _words(term)]
            self._by_first.setdefault(parts[0], []).append((parts, term))

    def __call__(self, text: CorpusText) -> Iterator[Found]:
        written = _words(unicodedata.normalize("NFC", text.text))
        found = [word.lower() for word in written]
        for place, word in enumerate(found):
            for parts, term in self._by_first.get(word, ()):
                if found[place : place + len(parts)] == parts:
                    yield term, _respelled(term, written[place : place + len(parts)])


def _respelled(term: str, written: list[str]) -> str:
    """A term with its words as they are written elsewhere, and what stands between them as it is."""
    made, end = "", 0
    for (start, stop), word in zip(words(term), written, strict=True):
        made += term[end:start] + word
        end = stop
    return made + term[end:]


def _words(text: str) -> list[str]:
    return [text[start:end] for start, end in words(text)]
