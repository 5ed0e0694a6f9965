"""Words: what they are, and that nothing but whitespace lies between them."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.text.words import words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        (" \n\t ", ""),
        ("No fever.", "No fever ."),
        ("38.5\u00a0°C", "38 . 5 ° C"),
        ("10mg/kg b.i.d.", "10 mg / kg b . i . d ."),
        ("pT1b_N0", "pT 1 b _ N 0"),
        ("l'hôpital Saint-Louis", "l ' hôpital Saint - Louis"),
        ("e\u0301tude cafe\u0301.", "e\u0301tude cafe\u0301 ."),
        ("患者は38度", "患 者 は 38 度"),
        ("रोगी को", "रोगी को"),
        ("a\r\nb\u2028c", "a b c"),
        ("❤\ufe0f ok", "❤\ufe0f ok"),
        ("\u0301a", "\u0301 a"),
        ("x\x00y\ud800", "x \x00 y \ud800"),
    ],
)
def test_examples(text: str, expected: str) -> None:
    assert [text[start:end] for start, end in words(text)] == expected.split(" ") * bool(expected)


letters = st.text(st.sampled_from("aZéñµ5\uff10 .,-_/\n\r\u00a0\u0301\u0903漢か👩\u200d⚕\ufe0fﬁ\u200b"), max_size=40)


@settings(max_examples=200, deadline=None)
@given(st.one_of(letters, st.text(max_size=40)))
def test_offsets_rebuild_the_text(text: str) -> None:
    position = 0
    for start, end in words(text):
        assert position <= start < end <= len(text)
        assert text[position:start].strip() == ""
        assert not any(character.isspace() for character in text[start:end])
        position = end
    assert text[position:].strip() == ""


@settings(max_examples=100, deadline=None)
@given(letters)
def test_no_word_begins_with_a_mark_that_has_a_base(text: str) -> None:
    for start, _ in words(text):
        if start > 0 and unicodedata.category(text[start])[0] == "M":
            assert text[start - 1].isspace()


@settings(max_examples=50, deadline=None)
@given(letters, letters)
def test_words_do_not_depend_on_what_is_elsewhere(left: str, right: str) -> None:
    alone = [(start + len(left) + 1, end + len(left) + 1) for start, end in words(right)]
    assert words(f"{left} {right}") == words(left) + alone
