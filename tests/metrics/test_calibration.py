from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

from osler.core.errors import InputError
from osler.metrics.calibration import calibration


def test_by_hand() -> None:
    result = calibration([0.95, 0.85, 0.81, 0.2], [True, True, False, True], bins=5)
    # bins (0.8, 1]: mean 0.87, right 2/3; (0, 0.2]: 0.2, right 1.
    assert [part.count for part in result.bins] == [1, 3]
    assert result.expected_error == pytest.approx((0.8 * 1 + abs(0.87 - 2 / 3) * 3) / 4)
    assert result.largest_error == pytest.approx(0.8)
    assert result.bins[0].gap == pytest.approx(-0.8)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60))
def test_bins_agree_with_scikit_learn(pairs: list[tuple[float, bool]]) -> None:
    sure, right = np.array([s for s, _ in pairs]), np.array([r for _, r in pairs])
    result = calibration(sure.tolist(), right.tolist(), bins=7)
    accuracy, confidence = calibration_curve(right, sure, n_bins=7, pos_label=True)
    np.testing.assert_allclose([part.accuracy for part in result.bins], accuracy)
    np.testing.assert_allclose([part.confidence for part in result.bins], confidence)
    assert sum(part.count for part in result.bins) == len(pairs)


def test_bad_input() -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        calibration([1.2], [True])
