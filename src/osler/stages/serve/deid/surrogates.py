"""Surrogates: other names, places and numbers of the same kind and shape, chosen by a secret key.

A surrogate depends only on the key, the patient and the original. The same name of a patient always gets the same surrogate, in
any order of notes and in any run with the same key. Each word of a name is replaced separately, so "Ana Ruiz" and "Ruiz" stay
the same person. Places, streets and other phrases also depend on the language of the note. Nothing is stored.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import unicodedata
from collections import Counter
from functools import cached_property, lru_cache
from math import log
from pathlib import Path
from typing import Any

from osler.core.errors import InputError
from osler.core.extras import require
from osler.core.files import open_private
from osler.stages.serve.deid.rules import given_names

LOCALES = {"en": "en_US", "es": "es_ES", "fr": "fr_FR"}
_YEAR, _LEAST = 365, 30
_WORD = re.compile(r"[^\W\d_]+")
_PARTICLES = frozenset(
    [
        "de",
        "del",
        "la",
        "las",
        "los",
        "el",
        "y",
        "i",
        "e",
        "da",
        "do",
        "dos",
        "das",
        "di",
        "du",
        "des",
        "le",
        "van",
        "von",
        "der",
        "den",
        "ter",
        "bin",
        "ibn",
        "al",
        "ben",
        "dr",
        "dra",
        "sr",
        "sra",
        "mr",
        "mrs",
        "ms",
    ]
)
_LETTERS, _DIGITS = "abcdefghjkmnpqrstuvwxyz", "0123456789"
_HOSPITALS = {"en": "{} Medical Center", "es": "Hospital {}", "fr": "Centre hospitalier {}"}
_TRIES = 50
_LEAST_KEY = 32


class Keyed:
    """Choices determined by a secret key and a patient."""

    def __init__(self, key: bytes, patient: str) -> None:
        self._key = hmac.digest(key, f"patient\0{patient}".encode(), "sha256")

    def number(self, *parts: str) -> int:
        return int.from_bytes(hmac.digest(self._key, "\0".join(parts).encode(), "sha256"))

    @cached_property
    def shift(self) -> int:
        """Days to add to every date of the patient: 30 to 335 days back, or a year more.

        Never close to a whole year, which would leave day and month unchanged.
        """
        number = self.number("shift")
        return -(_LEAST + number % (_YEAR - 2 * _LEAST + 1) + number // _YEAR % 2 * _YEAR)


class Surrogates:
    """Replacements for the PHI of one patient, in one language."""

    def __init__(self, keyed: Keyed, language: str) -> None:
        self.keyed = keyed
        self.language = language if language in LOCALES else "en"

    def of(self, kind: str, original: str) -> str | None:
        """Return another text of the same kind, never equal to the original, or None for kinds without surrogates."""
        make = _MAKERS.get(kind)
        if make is None:
            return None
        plain = _plain(original)
        for attempt in range(_TRIES):
            made = " ".join(make(self, original, plain, str(attempt)).split()) or None
            if made is not None and (made != original if kind == "AGE" else _plain(made) != plain):
                return made.upper() if original.isupper() and kind not in _SHAPED else made
        return None

    def name(self, original: str, plain: str, attempt: str) -> str:
        return _WORD.sub(lambda match: self._name_word(match[0], attempt), original)

    def _name_word(self, word: str, attempt: str) -> str:
        """Return another given name of the same gender, or another surname, depending on the word alone."""
        plain = _plain(word)
        if plain in _PARTICLES:
            return word
        if len(word) == 1:
            letter = _other(_LETTERS, word.lower(), self.keyed.number("initial", plain, attempt))
            return letter.upper() if word.isupper() else letter
        gender = _genders().get(plain)
        # Not the language of the note: a patient's notes may be in several, or too short to tell.
        choices = _provider_words(_language_of(plain), gender or "last")
        number = self.keyed.number("name", plain, attempt)
        made = choices[number % len(choices)]
        while _plain(made) == plain:
            number += 1
            made = choices[number % len(choices)]
        return made.upper() if word.isupper() else made.lower() if word.islower() else made

    def shaped(self, original: str, plain: str, attempt: str) -> str:
        """Replace digits and letters in place. The same number in another format gets the same digits."""
        stream = self.keyed.number("shape", plain, attempt)
        made = []
        first = True
        for character in original:
            if character.isdecimal():
                # Keep leading zeros and create no new ones, so that a number keeps its length.
                choices = "0" if first and character == "0" else _DIGITS[1:] if first else _DIGITS
                made.append(choices[stream % len(choices)])
            elif character.isalpha():
                letter = _LETTERS[stream % len(_LETTERS)]
                made.append(letter.upper() if character.isupper() else letter)
            else:
                made.append(character)
                continue
            first = False
            stream //= 31
            if stream < 1 << 32:
                stream = self.keyed.number("shape", plain, attempt, str(len(made)))
        return "".join(made)

    def email(self, original: str, plain: str, attempt: str) -> str:
        fake = self._fake("email", plain, attempt)
        return str(fake.user_name()) + "@example.org"

    def url(self, original: str, plain: str, attempt: str) -> str:
        scheme = re.match(r"\w+://", original)
        return f"{scheme[0] if scheme else ''}www.example.org/{self.keyed.number('url', plain, attempt) % 10**6:06d}"

    def ip(self, original: str, plain: str, attempt: str) -> str:
        """Return an address from the ranges reserved for documentation."""
        number = self.keyed.number("ip", plain, attempt)
        return f"2001:db8::{number % 0xFFFF:x}" if ":" in original else f"192.0.2.{1 + number % 254}"

    def city(self, original: str, plain: str, attempt: str) -> str:
        return str(self._fake("city", plain, attempt).city())

    def street(self, original: str, plain: str, attempt: str) -> str:
        return str(self._fake("street", plain, attempt).street_address())

    def state(self, original: str, plain: str, attempt: str) -> str:
        fake = self._fake("state", plain, attempt)
        if len(original) == 2 and original.isupper() and self.language == "en":
            return str(fake.state_abbr())
        return str(fake.region() if self.language == "fr" else fake.state())

    def country(self, original: str, plain: str, attempt: str) -> str:
        return str(self._fake("country", plain, attempt).country())

    def hospital(self, original: str, plain: str, attempt: str) -> str:
        return _HOSPITALS[self.language].format(self._fake("hospital", plain, attempt).last_name())

    def organization(self, original: str, plain: str, attempt: str) -> str:
        return str(self._fake("organization", plain, attempt).company())

    def profession(self, original: str, plain: str, attempt: str) -> str:
        return str(self._fake("profession", plain, attempt).job())

    def age(self, original: str, plain: str, attempt: str) -> str:
        """Return 90+ for ages over 89. Other ages move by one or two years and stay below 90."""

        def other(match: re.Match[str]) -> str:
            age = int(match[0])
            if age > 89:
                return "90+"
            step = (1, -1, 2, -2)[(self.keyed.number("age", str(age)) + int(attempt)) % 4]
            return str(age + step if 0 < age + step < 90 else age - step)

        return re.sub(r"\d+", other, original)

    def _fake(self, *parts: str) -> Any:
        fake = _faker(self.language)
        fake.seed_instance(self.keyed.number(*parts))
        return fake


_MAKERS = {
    "NAME": Surrogates.name,
    "EMAIL": Surrogates.email,
    "URL": Surrogates.url,
    "IP": Surrogates.ip,
    "CITY": Surrogates.city,
    "LOCATION": Surrogates.city,
    "STREET": Surrogates.street,
    "STATE": Surrogates.state,
    "COUNTRY": Surrogates.country,
    "HOSPITAL": Surrogates.hospital,
    "ORGANIZATION": Surrogates.organization,
    "PROFESSION": Surrogates.profession,
    "AGE": Surrogates.age,
}
_SHAPED = frozenset(
    [
        "USERNAME",
        "ZIP",
        "PHONE",
        "FAX",
        "SSN",
        "MEDICALRECORD",
        "HEALTHPLAN",
        "ACCOUNT",
        "LICENSE",
        "VEHICLE",
        "DEVICE",
        "BIOMETRIC",
        "ID",
    ]
)
_MAKERS |= dict.fromkeys(_SHAPED, Surrogates.shaped)


def check_faker() -> str:
    """Return the version of Faker, whose lists determine the surrogates, or raise an error if it is not installed."""
    return str(require("faker", "deid").VERSION)


@lru_cache
def _faker(language: str) -> Any:
    return require("faker", "deid").Faker(LOCALES[language])


@lru_cache
def _provider_words(language: str, role: str) -> tuple[str, ...]:
    """Faker's single-word given names of a gender, or surnames, in a fixed order."""
    providers = _faker(language).get_providers()
    provider = next(p for p in providers if type(p).__module__.startswith("faker.providers.person"))
    names = getattr(provider, "last_names" if role == "last" else f"first_names_{role}")
    return tuple(sorted({name for name in names if _WORD.fullmatch(name) and name[0].isupper()}))


@lru_cache
def _genders() -> dict[str, str]:
    """Gender of given names in the three languages, without accents: frequent names, and Faker's if they are not surnames."""
    known = {_plain(name): gender for language in LOCALES for name, gender in given_names(language).items()}
    surnames = {_plain(name) for language in LOCALES for name in _provider_words(language, "last")}
    for language in LOCALES:
        for gender in ("male", "female"):
            for name in _provider_words(language, gender):
                if (plain := _plain(name)) not in surnames:
                    known.setdefault(plain, gender)
    return known


@lru_cache
def _language_of(plain: str) -> str:
    """Language of a name: one that has it in its lists, and the one whose names have the most similar groups of three letters."""
    models = {language: _name_model(language) for language in LOCALES}
    having = [language for language, (names, _) in models.items() if plain in names]

    def likelihood(language: str) -> float:
        counts = models[language][1]
        total = counts.total() + 2000  # so that groups that do not occur cost about the same in every language
        return sum(log((counts[group] + 0.5) / total) for group in _letter_groups(plain))

    return max(having or LOCALES, key=likelihood)


@lru_cache
def _name_model(language: str) -> tuple[frozenset[str], Counter[str]]:
    names = frozenset(_plain(name) for role in ("last", "male", "female") for name in _provider_words(language, role))
    return names, Counter(group for name in names for group in _letter_groups(name))


def _letter_groups(plain: str) -> list[str]:
    framed = f"^{plain}$"
    return [framed[start : start + 3] for start in range(len(framed) - 2)]


def _other(choices: str, own: str, number: int) -> str:
    left = choices.replace(own, "")
    return left[number % len(left)]


def _plain(text: str) -> str:
    """Keep letters and digits only, without accents and case, so that spelling variants compare equal."""
    split = unicodedata.normalize("NFD", text.lower())
    return "".join(c for c in split if c.isalnum() and not unicodedata.combining(c))


def read_key(path: Path | None) -> bytes | None:
    """Read the key from a file, which is created if it does not exist. None without a path."""
    if path is None:
        return None
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        return random_key(path)
    if path.stat().st_mode & 0o077:
        raise InputError("others may read this key", where=path, fix=f"Run: chmod 600 {path}")
    key = path.read_bytes().strip()
    if len(key) < _LEAST_KEY:
        fix = "Name a file that does not exist, and a key is made"
        raise InputError(f"a key needs at least {_LEAST_KEY} characters", where=path, fix=fix)
    return key


def random_key(path: Path) -> bytes:
    """Read the key from a file of the workspace, or create one."""
    if path.is_file() and len(key := path.read_bytes().strip()) >= _LEAST_KEY:
        return key
    key = secrets.token_hex(_LEAST_KEY).encode()
    with open_private(path) as file:
        file.write(key + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return key
