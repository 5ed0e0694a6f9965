"""Dates, durations and frequencies in the clinic's English, as TIMEX3 values."""

from __future__ import annotations

import re
from datetime import date

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_SEASONS = {"spring": "SP", "summer": "SU", "fall": "FA", "autumn": "FA", "winter": "WI"}
_NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_NUMERIC = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4}|\d{2})")
_ISO = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_DAY_FIRST = re.compile(r"(\d{1,2})[- ]([a-z]{3})[a-z]*[- ](\d{4})")
_MONTH_FIRST = re.compile(r"([a-z]{3})[a-z]* (\d{1,2}) ?, ?(\d{4})")
_DAY = re.compile(r"(?:([a-z]{3})[a-z]* |(\d{1,2})/)(\d{1,2})")
_MONTH = re.compile(r"([a-z]{3})[a-z]*(?: (\d{4}))?")
_SEASON = re.compile(r"([a-z]+) (?:of )?(\d{4})")
_AMOUNT = re.compile(r"(\d+|[a-z]+)(?:\.5)?(?:(?: to |-)\d+)?(?: more)? (hour|day|week|month|year)")
_HOURS = re.compile(r"(?:q|every) ?(\d+)(?:(?:-| to )\d+)? ?h")
_TIMES = {
    r"\bb\.?i\.?d|twice|two times|2 ?x": "RPT12H",
    r"\bt\.?i\.?d|three|3 ?x|with meals|before meals": "RPT8H",
    r"\bq\.?i\.?d|four|4 ?x": "RPT6H",
    r"other day|qod": "RP2D",
    r"week|day\b.*(?:mon|tues|wednes|thurs|fri|satur|sun)|every (?:mon|tues|wednes|thurs|fri|satur|sun)": "RP1W",
    r"month": "RP1M",
}


def _month(word: str) -> int:
    return _MONTHS.index(word) + 1 if word in _MONTHS else 0


def _date(year: str, month: int, day: str) -> date | None:
    full = int(year) + (2000 if len(year) == 2 else 0)
    try:
        return date(full, month, int(day))
    except ValueError:
        return None


def whole_date(surface: str) -> date | None:
    """The day that a mention names with its year; None for any other mention."""
    text = " ".join(surface.lower().split())
    if match := _NUMERIC.fullmatch(text):
        return _date(match[3], int(match[1]), match[2])
    if match := _ISO.fullmatch(text):
        return _date(match[1], int(match[2]), match[3])
    if match := _DAY_FIRST.fullmatch(text):
        return _date(match[3], _month(match[2]), match[1])
    if match := _MONTH_FIRST.fullmatch(text):
        return _date(match[3], _month(match[1]), match[2])
    return None


def date_value(surface: str, today: date) -> tuple[str, str]:
    """The value and modifier of a date; what the mention leaves out is taken from `today`."""
    text = " ".join(surface.lower().split())
    if day := whole_date(text):
        return day.isoformat(), "NA"
    if re.fullmatch(r"\d{4}", text):
        return text, "NA"
    if match := _DAY.fullmatch(text):
        month = _month(match[1]) if match[1] else int(match[2])
        if found := _date(str(today.year), month, match[3]):
            return found.isoformat(), "NA"
    if (match := _MONTH.fullmatch(text)) and _month(match[1]):
        return f"{match[2] or today.year}-{_month(match[1]):02}", "NA"
    if (match := _SEASON.fullmatch(text)) and match[1] in _SEASONS:
        return f"{match[2]}-{_SEASONS[match[1]]}", "NA"
    return today.isoformat(), "APPROX"


def duration_value(surface: str) -> tuple[str, str]:
    """The value and modifier of a length of time."""
    for match in _AMOUNT.finditer(" ".join(surface.lower().split())):
        number = _NUMBERS.index(match[1]) if match[1] in _NUMBERS else match[1]
        if str(number).isdigit():
            return (f"PT{number}H" if match[2] == "hour" else f"P{number}{match[2][0].upper()}"), "NA"
    return "P1D", "APPROX"


def frequency_value(surface: str) -> tuple[str, str]:
    """The value and modifier of how often something is given; once a day where the mention does not say."""
    text = " ".join(surface.lower().split())
    if match := _HOURS.search(text):
        return f"RPT{match[1]}H", "NA"
    for pattern, value in _TIMES.items():
        if re.search(pattern, text):
            return value, "NA"
    return "RP1D", "NA" if re.search(r"daily|day|qd|q\.d|bed|night|qhs|morning|evening|am\b|pm\b", text) else "APPROX"
