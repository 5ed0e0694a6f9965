"""Remove documents in another script, or with many letters that their language does not have."""

from __future__ import annotations

import re
import string
import unicodedata
from functools import cache
from typing import Literal

from pydantic import Field, field_validator

from osler.core.errors import nearest
from osler.stages.corpus.documents import RepairedDocument
from osler.stages.corpus.filters import Filter
from osler.text.characters import SPACES, CharacterKind, other_characters

# Letters beyond a to z.
_LETTERS = {
    "ca": "àçèéíïòóúü",
    "de": "äöüß",
    "en": "",
    "es": "áéíñóúü",
    "fr": "àâæçèéêëîïôœùûüÿ",
    "gl": "áéíïñóúü",
    "it": "àèéìíîòóùú",
    "pt": "àáâãçéêíóôõúü",
}
_ASCII_LETTER = re.compile("[A-Za-z]")


class Alphabet(Filter):
    """Bounds on foreign letters."""

    max_foreign: float = Field(0.1, ge=0, le=1)
    """Maximum share of foreign characters, whitespace not counted."""
    foreign: Literal["letters", "everything"] = "letters"
    """What can be foreign: letters only, or everything that is not a letter of the alphabet. carrino2022's cleaner counts
    everything, punctuation and digits too, so it removes most tables and dosage lists."""
    languages: tuple[str, ...] = ()
    """Languages whose letters are not foreign; by default the document's language or, without one, all known languages."""
    scripts: tuple[str, ...] = ("LATIN",)
    """Scripts of which the document must have at least one letter, by Unicode name; empty allows any script."""

    @field_validator("languages")
    @classmethod
    def _known_languages(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for language in value:
            if language not in _LETTERS:
                close = nearest(language, _LETTERS)
                hint = f"did you mean {close!r}?" if close else f"known: {', '.join(_LETTERS)}"
                raise ValueError(f"the alphabet of language {language!r} is not known; {hint}")
        return value

    @field_validator("scripts")
    @classmethod
    def _upper_case(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(script.upper() for script in value)

    def reason(self, document: RepairedDocument) -> str | None:
        text = document.text
        if self.scripts and not _has_script(text, self.scripts):
            return "scripts"
        letters = _letters(self.languages or ((document.language,) if document.language in _LETTERS else ()))
        visible = len(text) - SPACES.count(text)
        if self.foreign == "everything":
            known = _ASCII.count(text) + sum(n for letter, n in other_characters(text).items() if letter in letters)
            foreign = visible - known
        else:
            foreign = sum(n for c, n in other_characters(text).items() if c.isalpha() and c not in letters)
        return "max_foreign" if foreign > self.max_foreign * visible else None


_ASCII = CharacterKind(frozenset(string.ascii_letters).__contains__, ascii_only=True)


@cache
def _letters(languages: tuple[str, ...]) -> frozenset[str]:
    """Letters of the alphabets outside ASCII, in both cases."""
    letters = "".join(_LETTERS[language] for language in languages or _LETTERS)
    # The ordinal signs of "1º" and the micro sign of "µg" are letters to Unicode, but belong to no alphabet.
    return frozenset(letters + letters.upper() + "ªºµ")


def _has_script(text: str, scripts: tuple[str, ...]) -> bool:
    if "LATIN" in scripts and _ASCII_LETTER.search(text):
        return True
    letters = (character for character in sorted(set(text)) if character.isalpha())
    return any(unicodedata.name(letter, "").partition(" ")[0] in scripts for letter in letters)
