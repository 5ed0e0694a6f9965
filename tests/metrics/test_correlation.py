from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from osler.core.errors import InputError
from osler.metrics.correlation import pearson, ranks, spearman

VALUES = st.lists(
    st.tuples(*(st.sampled_from([0, 0.5, 1, 2, 3.25, 4, 5, 1e6]) for _ in range(2))), min_size=3, max_size=30
)


@settings(max_examples=100, deadline=None)
@given(VALUES)
def test_agree_with_scipy(pairs: list[tuple[float, float]]) -> None:
    x, y = [a for a, _ in pairs], [b for _, b in pairs]
    assume(len(set(x)) > 1 and len(set(y)) > 1)
    assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-9)
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)
    np.testing.assert_allclose(ranks(np.array(x)), stats.rankdata(x))


def test_large_means_lose_no_digits() -> None:
    x = [1e9 + i for i in range(10)]
    y = [3.0, 1, 4, 1, 5, 9, 2, 6, 5, 3]
    assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-6)


def test_a_constant_side_scores_zero() -> None:
    assert pearson([1, 2, 3], [2, 2, 2]) == 0
    assert spearman([1, 1, 1], [1, 2, 3]) == 0


def test_bad_input() -> None:
    with pytest.raises(InputError):
        pearson([1, 2], [1])
    with pytest.raises(InputError, match="at least two"):
        spearman([1], [1])
    with pytest.raises(InputError, match="pair 2"):
        pearson([1, 2, 3], [1, math.nan, 3])
