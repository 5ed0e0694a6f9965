"""Numbers and JSON of a user's files: read, or one error with file and line that quotes nothing."""

from __future__ import annotations

import math

import pytest

from osler.core.errors import InputError
from osler.core.parsing import parse_float, parse_int, parse_json, to_float, to_int

WHERE = "notes.tsv:7"


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("-12", -12), (" 7 ", 7), ("007", 7), ("9" * 18, 10**18 - 1)])
def test_whole_numbers(text: str, number: int) -> None:
    assert parse_int(text, where=WHERE) == number


@pytest.mark.parametrize("text", ["", "²", "٣", "1.5", "1_0", "0x10", "9" * 19, "9" * 5000, "1 2", "canary"])
def test_anything_else_is_no_whole_number(text: str) -> None:
    assert to_int(text) is None
    with pytest.raises(InputError, match=r"^notes\.tsv:7: not a whole number\. ") as caught:
        parse_int(text, where=WHERE)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("value", ["nan", "inf", "-Infinity", "1e999", "", "²", "canary", math.inf, 10**400])
def test_a_number_must_be_finite(value: str | float) -> None:
    assert to_float(value) is None
    with pytest.raises(InputError, match=r"^notes\.tsv:7: not a finite number\. ") as caught:
        parse_float(value, where=WHERE)
    assert "canary" not in str(caught.value)


def test_finite_numbers() -> None:
    assert parse_float(" 2.50 ", where=WHERE) == 2.5
    assert parse_float(3, where=WHERE) == 3.0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": "canary', "not valid JSON at column 7"),
        ("[" * 100_000, "nested too deeply"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ('{"a": %s}' % ("9" * 5000), "thousands of digits"),
        ('{"a": NaN}', "not finite"),
        ('{"a": -Infinity}', "not finite"),
        ('{"a": ["canary \\ud800"]}', "lone surrogate"),
        ('{"canary \\udc00\\ud800": 1}', "lone surrogate"),
        ('{"a": "canary\\u0000"}', "NUL"),
    ],
)
def test_json_that_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=rf"^notes\.tsv:7: .*{problem}") as caught:
        parse_json(text, where=WHERE)
    assert "canary" not in str(caught.value)


def test_json_that_is_read() -> None:
    assert parse_json('{"a": "\\ud83d\\ude00 \\\\u0000", "b": [1, 2.5, null]}', where=WHERE) == {
        "a": "\U0001f600 \\u0000",
        "b": [1, 2.5, None],
    }
    assert parse_json('["a\tb", "\\ud800\\u0000"]', where=WHERE, lenient=True) == ["a\tb", "\ud800\x00"]


def test_the_line_of_a_complete_file_is_named() -> None:
    with pytest.raises(InputError, match=r"^table\.json:3: not valid JSON at column 1"):
        parse_json('{\n"a": 1,\n', where="table.json", complete_file=True)
