"""Made-up people, places and numbers: everything de-identification has to find."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from osler.clinic.dice import Dice
from osler.clinic.lexicon import Lexicon

_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Person:
    """A name; Spanish people have two surnames in one string."""

    given: str
    surname: str
    sex: str

    @property
    def full(self) -> str:
        """Given name first."""
        return f"{self.given} {self.surname}"

    @property
    def listed(self) -> str:
        """Surname first, as registers print it."""
        return f"{self.surname}, {self.given}"

    @property
    def initials(self) -> str:
        """First letters, as at the foot of a dictated note."""
        return "".join(word[0] for word in self.full.split())


def person(lexicon: Lexicon, dice: Dice, sex: str = "") -> Person:
    """Somebody of this sex, or of either."""
    sex = sex or dice.pick("FM")
    pool = lexicon.female if sex == "F" else lexicon.male
    given = dice.pick(pool)
    if lexicon.language == "es":
        if dice.chance(0.25):
            other = dice.pick(pool)
            given = given if other == given else f"{given} {other}"
        return Person(given, f"{dice.pick(lexicon.surnames)} {dice.pick(lexicon.surnames)}", sex)
    if dice.chance(0.2):
        given = f"{given} {dice.pick(_LETTERS)}."
    return Person(given, dice.pick(lexicon.surnames), sex)


def pattern(lexicon: Lexicon, dice: Dice, name: str) -> str:
    """A number after one of the patterns of this name: `#` is a digit, `@` a letter."""
    shape: str = dice.pick(lexicon.people["patterns"][name])
    written = []
    for character in shape:
        if character == "#":
            written.append("0123456789"[int(dice.roll() * 10)])
        elif character == "@":
            written.append(dice.pick(_LETTERS))
        else:
            written.append(character)
    return "".join(written)


def hospital(lexicon: Lexicon, dice: Dice) -> str:
    """A hospital named after a town, a saint or a benefactor."""
    form: str = dice.pick(lexicon.people["hospital_forms"])
    return form.format(
        place=dice.pick(lexicon.cities), name=dice.pick(lexicon.surnames), saint=dice.pick(lexicon.people["saints"])
    )


def abbreviation(name: str) -> str:
    """The initials of a hospital, as its staff write it."""
    return "".join(word[0] for word in name.split() if word[0].isupper())


def street(lexicon: Lexicon, dice: Dice) -> str:
    """A street with its house number."""
    people = lexicon.people
    name = dice.pick(people["street_names"]) if dice.chance(0.4) else dice.pick(lexicon.surnames)
    kind, number = dice.pick(people["street_kinds"]), dice.between(1, 180)
    if lexicon.language == "es":
        return f"{kind} {name}, {number}"
    return f"{number} {name} {kind}"


def organization(lexicon: Lexicon, dice: Dice) -> str:
    """An employer, an insurer or a shop."""
    people = lexicon.people
    if dice.chance(0.3):
        name = dice.pick(lexicon.surnames)
        return f"{name} & Sons" if lexicon.language == "en" else f"Hermanos {name}"
    head, tail = dice.pick(people["organization_heads"]), dice.pick(people["organization_tails"])
    return f"{head} {tail}" if lexicon.language == "en" else f"{tail} {head}"


def email(lexicon: Lexicon, dice: Dice, owner: Person) -> str:
    """An address at a domain reserved for examples."""
    given, surname = _ascii(owner.given.split()[0]), _ascii(owner.surname.split()[0])
    number = dice.between(1, 99)
    local = dice.pick((f"{given[0]}{surname}", f"{given}.{surname}", f"{surname}{number}", f"{surname}_{given}"))
    return f"{local}@{dice.pick(lexicon.people['domains'])}"


def url(lexicon: Lexicon, dice: Dice) -> str:
    """A web address at a domain reserved for examples."""
    host = f"{_ascii(dice.pick(lexicon.cities)).replace(' ', '')}.{dice.pick(lexicon.people['domains'])}"
    return dice.pick((f"www.{host}", f"https://{host}/results", f"http://portal.{host}", f"{host}/patients"))


def _ascii(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return plain.lower().replace("'", "")
