from __future__ import annotations

import pytest

from osler.stages.corpus.rewriters.whitespace import Whitespace


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a  b\t\tc", "a b c"),
        ("5\xa0mg\u202fde\u2009x", "5 mg de x"),
        ("one  \n  two", "one\ntwo"),
        ("one\n\n\n\n\ntwo", "one\n\ntwo"),
        ("one\r\ntwo\rthree\x0cfour\u2028five", "one\ntwo\nthree\nfour\nfive"),
        ("one\n \t \n \ntwo", "one\n\ntwo"),
        ("ya está, .5 mg : sí", "ya está, .5 mg : sí"),
    ],
)
def test_blanks_shrink_and_lines_stay(text: str, expected: str) -> None:
    assert Whitespace().rewrite(text, None).text == expected


def test_columns_of_a_table_can_stay() -> None:
    table = "  Na     140\tmmol/L   \n  K      4.1\tmmol/L\xa0\n\n\n"
    assert Whitespace(blanks=False).rewrite(table, None).text == "  Na     140\tmmol/L\n  K      4.1\tmmol/L\n\n"


def test_blank_lines() -> None:
    text = "a\n\n\nb\n\nc\nd"
    assert Whitespace(blank_lines=0).rewrite(text, None).text == "a\nb\nc\nd"
    assert Whitespace(blank_lines=2).rewrite(text, None).text == text


def test_spaces_before_marks() -> None:
    text = "sin fiebre , dolor . Dosis de .5 mg ; ¿ mejor ?"
    assert Whitespace(before_marks=True).rewrite(text, "es").text == "sin fiebre, dolor. Dosis de .5 mg; ¿ mejor?"
    assert Whitespace(before_marks=True).rewrite("TA : 14/8 , bien ?", "fr").text == "TA : 14/8, bien ?"


def test_a_second_run_changes_nothing() -> None:
    once = Whitespace(before_marks=True).rewrite(" a  \t\n \n\n\n b , c \r\r\r d", None)
    assert Whitespace(before_marks=True).rewrite(once.text, None) == once
    assert once.removed == ()


def test_long_runs_take_no_longer_than_other_text() -> None:
    assert Whitespace().rewrite("a" + " " * 1_000_000 + "b" + "\n" * 1_000_000, None).text == "a b\n\n"
