from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import precision_score, recall_score
from sklearn.preprocessing import MultiLabelBinarizer

from osler.core.errors import InputError
from osler.metrics.classification import score_hoc

LABELS = list("abcd")
SETS = st.sets(st.sampled_from(LABELS), min_size=1)


def test_by_hand_and_precision_is_precision() -> None:
    gold = [{"a", "b"}, {"c"}]
    predicted = [{"a"}, {"c", "d"}]
    scores = score_hoc(gold, predicted)
    assert scores.precision == pytest.approx((1 + 0.5) / 2)
    assert scores.recall == pytest.approx((0.5 + 1) / 2)
    lopsided = score_hoc([{"a", "b"}], [{"a"}])
    assert (lopsided.precision, lopsided.recall) == (1, 0.5)
    assert lopsided.f1 == pytest.approx(2 / 3)


def test_harmonic_mean_of_means_is_not_the_mean_of_f1() -> None:
    scores = score_hoc([{"a"}, {"a", "b", "c"}], [{"a", "b", "c"}, {"a"}])
    mean_of_f1 = (2 * (1 / 3) / (4 / 3)) * 2 / 2
    assert scores.f1 == pytest.approx(2 / 3)
    assert scores.f1 != pytest.approx(mean_of_f1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(SETS, st.sets(st.sampled_from(LABELS))), min_size=1, max_size=15))
def test_agrees_with_scikit_learn_where_every_abstract_has_gold(pairs: list[tuple[set[str], set[str]]]) -> None:
    gold, predicted = [g for g, _ in pairs], [p for _, p in pairs]
    binary = MultiLabelBinarizer(classes=LABELS)
    y, z = binary.fit_transform(gold), binary.fit_transform(predicted)
    scores = score_hoc(gold, predicted)
    precision = precision_score(y, z, average="samples", zero_division=0)
    recall = recall_score(y, z, average="samples", zero_division=0)
    assert scores.precision == pytest.approx(precision)
    assert scores.recall == pytest.approx(recall)
    assert scores.f1 == pytest.approx(2 * precision * recall / (precision + recall) if precision + recall else 0)
    assert scores.decomposed_f1().value == pytest.approx(scores.f1)


def test_abstracts_without_gold() -> None:
    plain = score_hoc([{"a"}], [{"a"}])
    silent = score_hoc([{"a"}, set()], [{"a"}, set()])
    assert (silent.precision, silent.recall, silent.f1) == (plain.precision, plain.recall, plain.f1)
    assert silent.as_dict()["without_gold"] == 1
    noisy = score_hoc([{"a"}, set()], [{"a"}, {"b"}])
    assert (noisy.precision, noisy.recall) == (0.5, 1)
    assert score_hoc([], []).f1 == 0


def test_lengths_must_agree() -> None:
    with pytest.raises(InputError):
        score_hoc([{"a"}], [])
