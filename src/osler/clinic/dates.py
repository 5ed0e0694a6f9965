"""Dates as clinicians of each language write them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from osler.clinic.dice import Dice
from osler.clinic.labels import Language

_EN = ["January", "February", "March", "April", "May", "June"]
_EN += ["July", "August", "September", "October", "November", "December"]
_ES = ["enero", "febrero", "marzo", "abril", "mayo", "junio"]
_ES += ["julio", "agosto", "septiembre", "octubre", "noviembre", "diciembre"]

_ENGLISH: tuple[Callable[[date], str], ...] = (
    lambda day: f"{day.month:02}/{day.day:02}/{day.year}",
    lambda day: f"{day.month}/{day.day}/{day.year % 100:02}",
    lambda day: f"{_EN[day.month - 1]} {day.day}, {day.year}",
    lambda day: f"{day.day} {_EN[day.month - 1][:3]} {day.year}",
    lambda day: f"{day.year}-{day.month:02}-{day.day:02}",
    lambda day: f"{day.day:02}-{_EN[day.month - 1][:3].upper()}-{day.year}",
)
_SPANISH: tuple[Callable[[date], str], ...] = (
    lambda day: f"{day.day:02}/{day.month:02}/{day.year}",
    lambda day: f"{day.day}/{day.month}/{day.year % 100:02}",
    lambda day: f"{day.day} de {_ES[day.month - 1]} de {day.year}",
    lambda day: f"{day.day:02}-{day.month:02}-{day.year}",
    lambda day: f"{day.day:02}.{day.month:02}.{day.year}",
    lambda day: f"{day.day} {_ES[day.month - 1]} {day.year}",
)
STYLES = len(_ENGLISH)


def full(day: date, style: int, language: Language) -> str:
    """A whole date in one of `STYLES` ways."""
    return (_ENGLISH if language == "en" else _SPANISH)[style](day)


def short(day: date, dice: Dice, language: Language) -> str:
    """A day without its year."""
    if language == "en":
        return f"{day.month}/{day.day}" if dice.chance(0.6) else f"{_EN[day.month - 1]} {day.day}"
    return f"{day.day}/{day.month}" if dice.chance(0.6) else f"{day.day} de {_ES[day.month - 1]}"


def month(day: date, dice: Dice, language: Language) -> str:
    """A month, with or without its year."""
    name = (_EN if language == "en" else _ES)[day.month - 1]
    if dice.chance(0.45):
        return name
    return f"{name} {day.year}" if language == "en" else f"{name} de {day.year}"
