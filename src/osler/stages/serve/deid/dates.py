"""Parse dates as written in notes, shift them in the same format, or reduce them to their year."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Literal

Part = Literal["weekday", "day", "month", "year"]
_MONTHS = {
    "en": (
        [
            "January",
            "February",
            "March",
            "April",
            "May",
            "June",
            "July",
            "August",
            "September",
            "October",
            "November",
            "December",
        ],
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"],
    ),
    "es": (
        [
            "enero",
            "febrero",
            "marzo",
            "abril",
            "mayo",
            "junio",
            "julio",
            "agosto",
            "septiembre",
            "octubre",
            "noviembre",
            "diciembre",
        ],
        ["ene", "feb", "mar", "abr", "may", "jun", "jul", "ago", "sep", "oct", "nov", "dic"],
    ),
    "fr": (
        [
            "janvier",
            "février",
            "mars",
            "avril",
            "mai",
            "juin",
            "juillet",
            "août",
            "septembre",
            "octobre",
            "novembre",
            "décembre",
        ],
        ["janv", "févr", "mars", "avr", "mai", "juin", "juil", "août", "sept", "oct", "nov", "déc"],
    ),
}
_WEEKDAYS = {
    "en": (
        ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"],
        ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"],
    ),
    "es": (
        ["lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"],
        ["lun", "mar", "mié", "jue", "vie", "sáb", "dom"],
    ),
    "fr": (
        ["lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"],
        ["lun", "mar", "mer", "jeu", "ven", "sam", "dim"],
    ),
}
_OTHER_WEEKDAYS = {"tues": 1, "thur": 3, "thurs": 3}
_OTHER_FORMS = {"setiembre": 9, "sept": 9, "fev": 2, "set": 9}
_TOKEN = re.compile(r"\d+|[^\W\d_]+")
_SUFFIX = re.compile(r"(st|nd|rd|th|er|º|°)(?![a-z])")
_THREE_NUMBERS = re.compile(r"\D*(\d{1,2})[^\w]+(\d{1,2})[^\w]+(?:\d{2}|\d{4})\D*")
_BETWEEN = {
    "de",
    "del",
    "dia",
    "día",
    "el",
    "of",
    "le",
    "the",
    "año",
    "ano",
    "l",
    "année",
    "annee",
    "mes",
    "er",
    "st",
    "nd",
    "rd",
    "th",
    "º",
}
_RECENT = 30
"""Two-digit years up to this one belong to this century, in a note without a year of four digits."""
_AHEAD = 2
"""How many years beyond the latest year of four digits a note may plan."""
_OLD = 90
"""Years after which a date reveals that somebody is older than 89."""
_PLAIN_YEAR = 2001


@dataclass(frozen=True)
class WrittenDate:
    """A date in a text: the positions of its day, month and year, and their values."""

    text: str
    language: str
    places: tuple[tuple[Part, int, int], ...]
    day: int | None
    month: int | None
    year: int | None
    weekday: int | None = None
    """As written, from 0 for Monday, whether it is right or not."""

    def shifted(self, days: int, year: int | None) -> str | None:
        """Shift the date by some days, in the same format; `year` is used if none is written. None if there is no such date."""
        own = self.year or year or _PLAIN_YEAR
        try:
            # A missing day or month counts as the middle of the period, so a shift by less than half of it may change nothing.
            new = date(own, self.month or 7, self.day or (15 if self.month else 1)) + timedelta(days)
        except (ValueError, OverflowError):
            return None
        pieces, done = [], 0
        for part, start, end in self.places:
            old = self.text[start:end]
            if part == "weekday":
                # The rest of the date may have no year, but the weekday moves with it all the same.
                number = ((self.weekday or 0) + days) % 7
                name = _form_like(_WEEKDAYS, number, old, self.language) or _WEEKDAYS["en"][1][number]  # Tues
                written = _in_case(name, old)
            else:
                written = self._written(part, new, old)
            pieces += [self.text[done:start], written]
            done = end
        return "".join([*pieces, self.text[done:]])

    def _written(self, part: Part, new: date, old: str) -> str:
        if part == "year":
            return f"{new.year % 100:02d}" if len(old) == 2 else f"{new.year:04d}"
        if part == "month" and not old.isdecimal():
            return _in_case(_month_name(new.month, old, self.language), old)
        # 12/03 becomes 02/12, but 14 sept. becomes 6 juin.
        named = any(part == "month" and not self.text[start:end].isdecimal() for part, start, end in self.places)
        width = 1 if named and old[0] != "0" else len(re.sub(r"\D", "", old))
        value = new.day if part == "day" else new.month
        return f"{value:0{width}d}{_ordinal(value, old)}"


def weekday_start(text: str, start: int) -> int:
    """Where a date that begins at `start` begins if a weekday stands before it: Tuesday, March 4; el martes 4 de marzo."""
    match = _BEFORE.search(text, max(0, start - _LONGEST_BEFORE), start)
    return match.start() if match else start


def month_first(dates: Iterable[str], language: str) -> bool:
    """Whether the dates of a note that may be read both ways, such as 04/03/2025, have the month first.

    The dates that can be read in one way tell (13/03/2025), if they agree; else it depends on the language.
    """
    matches = [match for text in dates if (match := _THREE_NUMBERS.fullmatch(text))]
    day_first, other = (any(int(match[group]) > 12 for match in matches) for group in (1, 2))
    return other if day_first != other else language == "en"


def parse_date(text: str, language: str, months_lead: bool | None = None) -> WrittenDate | None:
    """Parse a whole passage as one date, complete or partial, also behind a weekday. None if it is not a date, or several.

    `months_lead` says how to read 04/03/2025 (see `month_first`); by default, its language does.
    """
    leads = language == "en" if months_lead is None else months_lead
    first = _TOKEN.search(text)
    weekday = _WEEKDAY_FORMS.get(_plain(first[0])) if first else None
    if (plain := _parse(text, language, leads)) is not None or first is None or weekday is None:
        return plain
    rest = _parse(text[first.end() :], language, leads)
    if rest is None or rest.day is None or rest.month is None:
        return None
    moved = tuple((part, start + first.end(), end + first.end()) for part, start, end in rest.places)
    return replace(rest, text=text, places=(("weekday", *first.span()), *moved), weekday=weekday)


def _parse(text: str, language: str, months_lead: bool) -> WrittenDate | None:
    tokens = [(match.group(), match.start(), match.end()) for match in _TOKEN.finditer(text)]
    numbers = [token for token in tokens if token[0].isdecimal()]
    names = [(month, token) for token in tokens if (month := _month_of(token[0]))]
    named = {token for _, token in names}
    others = [token[0] for token in tokens if token not in numbers and token not in named]
    if len(names) > 1 or any(word.lower() not in _BETWEEN for word in others):
        return None
    values = _with_name(text, names[0], numbers) if names else _numeric(numbers, months_lead)
    if values is None:
        return None
    parts: dict[Part, int] = {part: value for part, value, _, _ in values}
    day, month, year = parts.get("day"), parts.get("month"), parts.get("year")
    try:
        date(year or 2000, month or 1, day or 1)
    except ValueError:
        return None
    places = tuple((part, start, _suffix_end(text, end) if part == "day" else end) for part, _, start, end in values)
    return WrittenDate(text, language, tuple(sorted(places, key=lambda place: place[1])), day, month, year)


def with_centuries(dates: Sequence[WrittenDate | None]) -> list[WrittenDate | None]:
    """Correct the century of two-digit years: in a note of 2025, somebody born on 4/3/31 was born in 1931."""
    widths = [{part: end - start for part, start, end in written.places} if written else {} for written in dates]
    full = [d.year for d, width in zip(dates, widths, strict=True) if d and d.year and width.get("year") == 4]
    if not full:
        return list(dates)
    last = max(full) + _AHEAD

    def century(written: WrittenDate) -> WrittenDate:
        year = 2000 + (written.year or 0) % 100
        return replace(written, year=year if year <= last else year - 100)

    return [
        century(written) if written and width.get("year") == 2 else written
        for written, width in zip(dates, widths, strict=True)
    ]


def latest_year(dates: Iterable[WrittenDate | None]) -> int | None:
    """Latest year among the dates of a note, approximately when it was written."""
    return max((written.year for written in dates if written and written.year), default=None)


def tells_old_age(written: WrittenDate, latest: int | None) -> bool:
    """Whether a date is so long before a note that it reveals an age over 89. Safe Harbor then does not allow even its year."""
    return written.year is not None and latest is not None and latest - written.year >= _OLD


_Value = tuple[Part, int, int, int]


def _numeric(numbers: list[tuple[str, int, int]], months_lead: bool) -> list[_Value] | None:
    widths = [len(text) for text, _, _ in numbers]
    ints = [(int(text), start, end) for text, start, end in numbers]
    order: tuple[Part, ...]
    if widths == [8]:
        [(text, start, _)] = numbers
        compact = [(text[:4], start, start + 4), (text[4:6], start + 4, start + 6), (text[6:], start + 6, start + 8)]
        return _numeric(compact, months_lead)
    if widths == [4]:
        order = ("year",)
    elif len(ints) == 3 and widths[0] == 4:
        order = ("year", "month", "day")
    elif len(ints) == 3 and widths[2] in (2, 4) and max(widths[:2]) < 3:
        order = (*_day_and_month(ints[0][0], ints[1][0], months_lead), "year")
    elif len(ints) == 2 and widths[1] == 4 and widths[0] < 3:
        order = ("month", "year")
    elif len(ints) == 2 and max(widths) < 3:
        order = _day_and_month(ints[0][0], ints[1][0], months_lead)
    else:
        return None
    return [
        (part, _full_year(value) if part == "year" and end - start == 2 else value, start, end)
        for part, (value, start, end) in zip(order, ints, strict=True)
    ]


def _day_and_month(first: int, second: int, months_lead: bool) -> tuple[Part, Part]:
    """Order of day and month, unless the numbers say otherwise."""
    return ("month", "day") if second > 12 or (months_lead and first <= 12) else ("day", "month")


def _with_name(
    text: str, named: tuple[int, tuple[str, int, int]], numbers: list[tuple[str, int, int]]
) -> list[_Value] | None:
    month, (_, start, end) = named
    values: list[_Value] = [("month", month, start, end)]
    years = [number for number in numbers if len(number[0]) == 4]
    short = [number for number in numbers if len(number[0]) < 3]
    if len(years) > 1 or len(years) + len(short) != len(numbers) or len(short) > 2:
        return None
    values += [("year", int(year), first, last) for year, first, last in years]
    if years and len(short) < 2:
        values += [("day", int(day), first, last) for day, first, last in short]
    elif not years and len(short) == 2:  # 3-MAY-17
        values += [("day", int(short[0][0]), *short[0][1:]), ("year", _full_year(int(short[1][0])), *short[1][1:])]
    elif not years and short:
        value, first, last = short[0]
        joined = int(value) > 31 or (first > start and text[first - 1] in "-/'’")  # May 98, May-17, enero-04, June '19
        values.append(("year", _full_year(int(value)), first, last) if joined else ("day", int(value), first, last))
    elif short:
        return None
    return values


def _full_year(value: int) -> int:
    return value + (2000 if value <= _RECENT else 1900)


def _suffix_end(text: str, end: int) -> int:
    match = _SUFFIX.match(text, end)
    return match.end() if match else end


def _ordinal(value: int, old: str) -> str:
    suffix = re.sub(r"^\d+", "", old)
    if suffix in ("st", "nd", "rd", "th"):
        return "th" if 10 < value < 14 else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    if suffix == "er":
        return "er" if value == 1 else ""
    return suffix


def _plain(word: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", word.lower()) if not unicodedata.combining(c))


def _month_of(word: str) -> int | None:
    return _FORMS.get(_plain(word))


_FORMS = _OTHER_FORMS | {
    _plain(name): number for lists in _MONTHS.values() for names in lists for number, name in enumerate(names, 1)
}


_DAY_NAMES = [(name, n) for lists in _WEEKDAYS.values() for names in lists for n, name in enumerate(names)]
_WEEKDAY_FORMS = _OTHER_WEEKDAYS | {_plain(name): number for name, number in _DAY_NAMES}
_ANY_WEEKDAY = "|".join(sorted({*_WEEKDAY_FORMS, *(name.lower() for name, _ in _DAY_NAMES)}))
_BEFORE = re.compile(rf"(?<!\w)(?:{_ANY_WEEKDAY})\.?,?[ \n]{{1,2}}(?:(?:el )?d[ií]a |el |the |le )?\Z", re.IGNORECASE)
_LONGEST_BEFORE = 30


def _form_like(
    table: Mapping[str, tuple[Sequence[str], Sequence[str]]], number: int, old: str, language: str
) -> str | None:
    """Entry of a table of names in the language and form of `old`, full or short."""
    plain = _plain(old)
    for own in dict.fromkeys((language, *table)):
        for names in table.get(own, ()):
            if plain in map(_plain, names):
                return names[number]
    return None


def _month_name(month: int, old: str, language: str) -> str:
    """Name of a month in the language and form of `old`, full or short."""
    if (found := _form_like(_MONTHS, month - 1, old, language)) is not None:
        return found
    plain = _plain(old)
    return _MONTHS["es" if plain.startswith("set") else "en"][0 if plain == "setiembre" else 1][month - 1]


def _in_case(word: str, old: str) -> str:
    if old.isupper():
        return word.upper()
    return word.capitalize() if old[0].isupper() else word.lower()
