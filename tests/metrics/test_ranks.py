"""Ranks over data sets, against SciPy and numbers computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from osler.metrics.ranks import rank_test
from osler.metrics.scores import mean_of, over_parts
from osler.metrics.significance import bootstrap_interval


def test_ranks_by_hand() -> None:
    # b is best twice and shares the first two ranks once: (1 + 1 + 1.5) / 3.
    found = rank_test(["a", "b", "c"], [[0.5, 0.6, 0.9], [0.7, 0.8, 0.9], [0.6, 0.1, 0.2]])
    assert found.ranks == pytest.approx((6.5 / 3, 3.5 / 3, 8 / 3))
    assert found.sets == 3
    # q(3, 0.05) / sqrt 2 = 2.3437 (Demsar 2006, table 5), times sqrt(3 * 4 / (6 * 3)).
    assert found.difference == pytest.approx(2.3437 * np.sqrt(12 / 18), abs=1e-4)


def test_friedman_agrees_with_scipy_with_and_without_ties() -> None:
    rng = np.random.default_rng(0)
    for digits in (6, 1):
        table = rng.random((5, 9)).round(digits)
        theirs = stats.friedmanchisquare(*table)
        ours = rank_test(list("abcde"), table.tolist())
        assert ours.statistic == pytest.approx(theirs.statistic)
        assert ours.p_value == pytest.approx(theirs.pvalue)


def test_cliques_join_systems_that_do_not_differ() -> None:
    # Ten data sets, the same order on each: ranks 1 to 4, critical difference 2.569 * sqrt(20 / 60) = 1.483.
    scores = [[4 - system] * 10 for system in range(4)]
    found = rank_test(list("abcd"), scores)
    assert found.rejected
    assert found.difference == pytest.approx(1.4832, abs=1e-3)
    assert found.cliques == (("a", "b"), ("b", "c"), ("c", "d"))


def test_without_a_difference_overall_no_pair_is_called_different() -> None:
    found = rank_test(["a", "b"], [[1, 0, 1, 0], [0, 1, 0, 1]])
    assert found.p_value == 1.0
    assert found.cliques == (("a", "b"),)
    # SciPy's test needs three systems; with two, Friedman's statistic is that of a sign test.
    two = rank_test(["a", "b"], [[1, 1, 1, 0], [0, 0, 0, 1]])
    assert (two.statistic, two.p_value) == pytest.approx((1.0, 0.31731050786291415))
    equal = rank_test(["a", "b"], [[1.0], [1.0]])
    assert (equal.statistic, equal.ranks) == (0.0, (1.5, 1.5))


def test_the_mean_over_folds_weighs_folds_alike() -> None:
    whole = over_parts([mean_of([1.0, 0.0]), mean_of([1.0, 1.0, 1.0, 0.0, 0.0, 1.0])])
    assert whole.value == pytest.approx((1 / 2 + 4 / 6) / 2)
    interval = bootstrap_interval([whole], resamples=200)
    assert interval.low < whole.value < interval.high
