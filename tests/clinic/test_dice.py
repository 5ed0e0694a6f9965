from __future__ import annotations

from collections import Counter

import pytest

from osler.clinic.dice import Dice


def test_a_stream_depends_on_its_seed_and_every_key():
    streams = [(0,), (1,), (0, "a"), (0, "b"), (0, "a", 1)]
    assert len({Dice(*keys).roll() for keys in streams}) == len(streams)
    assert Dice(3, "note").roll() == Dice(3, "note").roll()


def test_every_value_is_drawn_and_no_other():
    dice = Dice(0)
    assert {dice.between(2, 5) for _ in range(200)} == {2, 3, 4, 5}
    assert {dice.pick("abc") for _ in range(200)} == set("abc")
    assert {dice.chance(0.5) for _ in range(50)} == {True, False}
    assert not any(dice.chance(0.0) for _ in range(50))


@pytest.mark.parametrize("count", [0, 2, 4, 9])
def test_a_sample_has_no_option_twice(count):
    drawn = Dice(1).sample("abcd", count)
    assert len(drawn) == min(count, 4)
    assert len(set(drawn)) == len(drawn)


def test_weights_are_the_shares_of_the_draws():
    dice = Dice(2)
    drawn = Counter(dice.weighted("abc", (1, 3, 0)) for _ in range(2000))
    assert drawn["c"] == 0
    assert drawn["b"] / drawn["a"] == pytest.approx(3, rel=0.2)
