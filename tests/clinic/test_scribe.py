from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from osler.clinic.dice import Dice
from osler.clinic.scribe import misspell


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="abcdefg7-", min_size=1, max_size=12), st.integers(0, 99))
def test_a_misspelling_changes_one_place_of_a_long_word(word: str, seed: int) -> None:
    slip = misspell(word, Dice(seed))
    if len(word) < 5 or not word.isalpha():
        assert slip == word
    assert abs(len(slip) - len(word)) <= 1
    assert slip[0] == word[0]
