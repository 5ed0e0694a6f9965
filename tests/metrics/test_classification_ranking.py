from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from osler.core.errors import InputError
from osler.metrics.classification import average_precision, score_ranking

LABELS = list("abcdef")


def test_by_hand() -> None:
    assert average_precision({"a", "c"}, ["a", "b", "c"]) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision({"a", "c"}, ["b", "a"]) == pytest.approx((1 / 2 + 0) / 2), (
        "c is not ranked and to be found"
    )
    assert average_precision({"a"}, []) == 0


@settings(max_examples=60, deadline=None)
@given(st.sets(st.sampled_from(LABELS), min_size=1), st.permutations(LABELS))
def test_agrees_with_scikit_learn(gold: set[str], ranked: list[str]) -> None:
    right = [label in gold for label in ranked]
    expected = average_precision_score(right, range(len(ranked), 0, -1))
    assert average_precision(gold, ranked) == pytest.approx(expected)


def test_documents_without_gold_stay_out_of_the_mean() -> None:
    scored = score_ranking([{"a"}, set(), {"b"}], [["a"], ["a", "b"], ["a", "b"]])
    assert scored.value == pytest.approx((1 + 0.5) / 2)
    assert score_ranking([set()], [["a"]]).value == 0


def test_what_cannot_be_ranked_or_compared() -> None:
    with pytest.raises(InputError, match="ranked twice"):
        average_precision({"a"}, ["a", "a"])
    with pytest.raises(InputError, match="cannot compare"):
        score_ranking([{"a"}], [])
