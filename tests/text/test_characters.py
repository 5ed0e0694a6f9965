from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osler.text.characters import ALPHANUMERIC, DIGITS, SPACES, UPPER, CharacterKind, other_characters

KINDS = {DIGITS: str.isdigit, UPPER: str.isupper, ALPHANUMERIC: str.isalnum, SPACES: str.isspace}


@given(st.text(), st.sampled_from([1, 300]))
def test_counts_are_those_of_a_loop_over_the_text(text: str, times: int) -> None:
    for kind, test in KINDS.items():
        assert kind.count(text * times) == times * sum(map(test, text))


@pytest.mark.parametrize("text", ["", "\ud800 lone", "\U0001d400 \U0001f600", "m² 10⁻³ ½ µg Ⅳ"])
def test_unusual_characters(text: str) -> None:
    for kind, test in KINDS.items():
        assert kind.count(text) == sum(map(test, text))


def test_other_characters_are_counted_one_by_one() -> None:
    assert dict(other_characters("fiebre de 39º, día 3º")) == {"º": 2, "í": 1}
    assert not other_characters("plain")


def test_a_kind_of_marks() -> None:
    assert CharacterKind(frozenset("<>").__contains__, ascii_only=True).count("a<b>é") == 2
