"""Which words of a corpus are medical terms: a rule over the parts medical words are made of (`data/medical_parts.toml`).

The rule only ever takes words in small letters. That keeps most names out, which are written with a capital, and
`terms` shows a word only where enough documents have it.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from functools import cache
from importlib import resources
from itertools import chain

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
