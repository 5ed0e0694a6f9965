"""How one clinician writes: headings, bullets, line width, dates, carelessness."""

from __future__ import annotations

from dataclasses import dataclass

from osler.clinic.dates import STYLES
from osler.clinic.dice import Dice
from osler.clinic.labels import Language

_HEADINGS = ("{upper}:\n", "{upper}:\n", "{upper}: ", "{title}:\n", "{title}: ", "** {upper} **\n", "{upper}\n")
_BULLETS = ("- ", "- ", "* ", "{n}. ", "{n}) ", "")


@dataclass(frozen=True, slots=True)
class Style:
    """The habits that hold through one note."""

    heading: str
    bullet: str
    width: int
    date: int
    sloppy: bool
    accents: bool
    capitals: bool
    fahrenheit: bool
    table: bool
    tight_units: bool
    commas: bool
    pages: int


def draw_style(dice: Dice, language: Language) -> Style:
    """Somebody's habits. Few notes are very long (`pages` of daily entries), in capitals, or careless."""
    roll = dice.roll()
    return Style(
        heading=dice.pick(_HEADINGS),
        bullet=dice.pick(_BULLETS),
        width=dice.between(66, 84) if dice.chance(0.35) else 0,
        date=dice.between(0, STYLES - 1),
        sloppy=dice.chance(0.2),
        accents=language == "en" or not dice.chance(0.08),
        capitals=dice.chance(0.02),
        fahrenheit=language == "en" and dice.chance(0.6),
        table=dice.chance(0.55),
        tight_units=dice.chance(0.15),
        commas=language == "es" and dice.chance(0.6),
        pages=dice.between(14, 20) if roll < 0.015 else dice.between(5, 8) if roll < 0.06 else 0,
    )


def misspell(word: str, dice: Dice) -> str:
    """A slip of the keyboard inside a word of five letters or more: two letters swapped, one lost, or one doubled."""
    if len(word) < 5 or not word.isalpha():
        return word
    place = dice.between(1, len(word) - 3)
    slip = dice.between(0, 2)
    if slip == 0:
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    if slip == 1:
        return word[:place] + word[place + 1 :]
    return word[:place] + word[place] + word[place:]
