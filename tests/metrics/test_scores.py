from __future__ import annotations

import numpy as np
import pytest

from osler.core.errors import InputError
from osler.metrics.scores import PRF, Decomposed, labels_of, mean_of, over_parts, ratio, score_sets

GOLD = [{("drug", 1), ("drug", 2), ("dose", 1)}, set(), {("dose", 5)}]
FOUND = [{("drug", 1), ("dose", 2)}, {("drug", 9)}, {("dose", 5)}]


def test_precision_recall_and_f1_by_hand_and_zero_where_undefined():
    some = PRF(3, 1, 2)
    assert (some.precision, some.recall, some.f1) == (0.75, 0.6, pytest.approx(2 / 3))
    nothing = PRF(0, 0, 0)
    assert (nothing.precision, nothing.recall, nothing.f1) == (0, 0, 0)


def test_sets_are_counted_by_document_and_label():
    scores = score_sets(GOLD, FOUND)
    assert scores.labels == ("dose", "drug")
    assert scores.counts.tolist() == [[[0, 1, 1], [1, 0, 1]], [[0, 0, 0], [0, 1, 0]], [[1, 0, 0], [0, 0, 0]]]
    assert scores.micro == PRF(2, 2, 2)
    assert scores.per_label == {"dose": PRF(1, 1, 1), "drug": PRF(1, 1, 1)}
    assert scores.macro_f1 == 0.5


def test_only_the_labels_asked_for_count_and_each_is_in_the_mean():
    scores = score_sets(GOLD, FOUND, labels=("dose", "route"))
    assert scores.micro == PRF(1, 1, 1)
    assert scores.macro_f1 == 0.25
    assert labels_of(GOLD, FOUND) == ("dose", "drug")


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_the_decomposed_score_of_any_documents_is_their_score(average):
    scores = score_sets(GOLD, FOUND)
    whole = scores.f1(average)
    assert whole.value == (scores.micro.f1 if average == "micro" else scores.macro_f1)
    part = score_sets(GOLD[:2], FOUND[:2], labels=scores.labels)
    expected = part.micro.f1 if average == "micro" else part.macro_f1
    assert float(whole.score(whole.rows[:2].sum(axis=0))) == expected


def test_parts_have_the_same_weight_however_many_documents_they_hold():
    parts = over_parts([mean_of([1.0, 1.0, 1.0]), mean_of([0.0])])
    assert parts.value == 0.5
    assert parts.rows.shape == (4, 4)
    assert mean_of([1.0, 1.0, 1.0, 0.0]).value == 0.75
    folds = [mean_of([0.0]), mean_of([1.0]), mean_of([1.0])]
    assert (over_parts(folds).value, over_parts(folds, "median").value) == (pytest.approx(2 / 3), 1.0)


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(InputError, match="cannot compare 3 gold documents with 1"):
        score_sets(GOLD, FOUND[:1])
    with pytest.raises(InputError, match="at least one document"):
        Decomposed(np.zeros((0, 2)), lambda sums: sums)
    assert ratio(np.array([1.0, 1.0]), np.array([2.0, 0.0])).tolist() == [0.5, 0.0]
