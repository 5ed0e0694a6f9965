"""Dates in the forms notes have: read, shifted in the same form, and told from what is no date."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osler.stages.serve.deid.dates import (
    latest_year,
    month_first,
    parse_date,
    tells_old_age,
    weekday_start,
    with_centuries,
)

FORMS = [
    ("12/03/2014", "es", (12, 3, 2014), "02/12/2013"),
    ("12/03/2014", "en", (3, 12, 2014), "08/25/2014"),
    ("25/03/2014", "en", (25, 3, 2014), "15/12/2013"),
    ("2014-12-03", "en", (3, 12, 2014), "2014-08-25"),
    ("20170304", "en", (4, 3, 2017), "20161124"),
    ("3/4/17", "en", (4, 3, 2017), "11/24/16"),
    ("March 31, 1929", "en", (31, 3, 1929), "December 21, 1928"),
    ("23-NOV-2017", "en", (23, 11, 2017), "15-AUG-2017"),
    ("3rd of June, 2011", "en", (3, 6, 2011), "23rd of February, 2011"),
    ("6 Jun 24", "en", (6, 6, 2024), "27 Feb 24"),
    ("11 de agosto de 2012", "es", (11, 8, 2012), "3 de mayo de 2012"),
    ("11 DE AGOSTO DE 2012", "es", (11, 8, 2012), "3 DE MAYO DE 2012"),
    ("marzo de 2014", "es", (None, 3, 2014), "diciembre de 2013"),
    ("enero-04", "es", (None, 1, 2004), "octubre-03"),
    ("año 2004", "es", (None, None, 2004), "año 2004"),
    ("1er mars 2020", "fr", (1, 3, 2020), "22 novembre 2019"),
    ("14 sept. 2019", "fr", (14, 9, 2019), "6 juin. 2019"),
    ("12/03", "es", (12, 3, None), "02/12"),
    ("August", "en", (None, 8, None), "May"),
    ("04MAR2025", "en", (4, 3, 2025), "24NOV2024"),
    ("4 del 3 del 2025", "es", (4, 3, 2025), "24 del 11 del 2024"),
    ("mayo del 98", "es", (None, 5, 1998), "febrero del 98"),
    ("Tue, Mar 4th, 2025", "en", (4, 3, 2025), "Sun, Nov 24th, 2024"),
    ("MARTES, DÍA 4 DE MARZO", "es", (4, 3, None), "DOMINGO, DÍA 24 DE NOVIEMBRE"),
    ("miercoles 5-3-2025", "es", (5, 3, 2025), "lunes 25-11-2024"),
    ("mar. 4 mars 2025", "fr", (4, 3, 2025), "dim. 24 novembre 2024"),
    ("Thurs., 6 March", "en", (6, 3, None), "Tue., 26 November"),
]


@pytest.mark.parametrize(("text", "language", "parts", "shifted"), FORMS)
def test_a_date_is_read_and_shifted_in_its_own_form(text, language, parts, shifted) -> None:
    written = parse_date(text, language)
    assert written is not None
    assert (written.day, written.month, written.year) == parts
    assert written.shifted(-100, 2015) == shifted


@pytest.mark.parametrize(
    "text",
    ["Monday", "31/02/2011", "del 3 al 5 de mayo", "1990s", "12", "120/80", "5 mg", "", "16/018/1961", "lunes 2014"],
)
def test_what_is_no_single_date_is_not_read_as_one(text: str) -> None:
    assert parse_date(text, "es") is None


DAYS = st.dates(date(1930, 1, 1), date(2035, 12, 31))


@pytest.mark.parametrize(
    ("dates", "language", "expected"),
    [
        (["04/03/2025"], "en", True),
        (["04/03/2025"], "es", False),
        (["04/03/2025", "13/03/2025"], "en", False),
        (["4.3.25", "3.13.25"], "fr", True),
        (["13/03/2025", "03/13/2025"], "en", True),
        (["05/20", "13 March 2025", "2025-13-03"], "es", False),
    ],
)
def test_the_other_dates_of_a_note_tell_whether_months_come_first(dates, language, expected) -> None:
    assert month_first(dates, language) == expected


@pytest.mark.parametrize(
    ("before", "weekday"),
    [
        ("on Tuesday, ", "Tuesday, "),
        ("El MARTES EL DÍA ", "MARTES EL DÍA "),
        ("vu le mardi\n", "mardi\n"),
        ("mié. ", "mié. "),
        ("SpO2 satur ", ""),
        ("Monday. Since ", ""),
    ],
)
def test_a_weekday_before_a_date_belongs_to_it(before: str, weekday: str) -> None:
    assert weekday_start(f"{before}4/3/2025", len(before)) == len(before) - len(weekday)


@given(DAYS, st.integers(-700, -30))
def test_a_shifted_weekday_fits_the_shifted_date(day: date, days: int) -> None:
    written = parse_date(f"{day:%A} {day:%Y-%m-%d}", "en")
    assert written is not None
    assert written.shifted(days, None) == f"{day + timedelta(days):%A %Y-%m-%d}"


ALL_FORMS = st.sampled_from(["{0:%d/%m/%Y}", "{0:%Y-%m-%d}", "{0.day}-{0.month}-{0.year}", "{0:%d/%m/%y}"])


@given(DAYS, DAYS, ALL_FORMS, st.integers(-700, -30))
def test_a_shift_keeps_intervals(one: date, other: date, form: str, days: int) -> None:
    shifted = []
    for day in (one, other):
        written = parse_date(form.format(day), "es")
        assert written is not None
        moved = parse_date(str(written.shifted(days, None)), "es")
        assert moved is not None
        assert moved.year is not None
        shifted.append(date(moved.year, moved.month or 0, moved.day or 0))
    if "%y" not in form:  # a century is lost with two digits
        assert shifted[0] == one + timedelta(days)
        assert shifted[1] - shifted[0] == other - one


def test_a_short_year_is_of_the_century_that_the_note_allows() -> None:
    def years(*texts: str) -> list[int | None]:
        return [written and written.year for written in with_centuries([parse_date(text, "en") for text in texts])]

    assert years("4/3/31", "3/4/2025", "3/10/25", "5/6/27", "5/6/98") == [1931, 2025, 2025, 2027, 1998]
    assert years("4/3/31", "3/4/2032") == [2031, 2032]
    assert years("4/3/31", "3/4/25") == [1931, 2025]
    assert years("Monday", "March 4") == [None, None]


def test_a_birth_date_ninety_years_before_the_note_tells_an_age() -> None:
    born, seen = parse_date("3/5/1927", "es"), parse_date("4/6/2017", "es")
    assert born is not None
    assert seen is not None
    latest = latest_year([born, seen, None])
    assert latest == 2017
    assert tells_old_age(born, latest)
    assert not tells_old_age(seen, latest)
    assert not tells_old_age(parse_date("3/5/1928", "es") or seen, latest)
