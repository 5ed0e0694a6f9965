"""Pearson and Spearman correlation. Where one side is constant the score is 0, so a collapsed model ranks last.

Computed from sums over documents rather than by scipy: the bootstrap scores thousands of resamples at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from osler.core.errors import InputError
from osler.metrics.scores import Decomposed, FloatArray, ratio


def pearson(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Linear correlation."""
    return decomposed_pearson(gold, predicted).value


def spearman(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Rank correlation; equal values share the mean of their ranks."""
    x, y = _checked(gold, predicted)
    return pearson(ranks(x).tolist(), ranks(y).tolist())


def decomposed_pearson(gold: Sequence[float], predicted: Sequence[float]) -> Decomposed:
    """Pearson correlation as a function of sums over documents, for significance tests."""
    # Standardised first: products of raw values lose digits when the mean is far from zero.
    x, y = (_standardised(side) for side in _checked(gold, predicted))
    return Decomposed(np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1), _correlation)


def ranks(values: FloatArray) -> FloatArray:
    """Ranks from 1, the mean rank for ties."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    result: FloatArray = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return result


def _checked(gold: Sequence[float], predicted: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    x, y = np.asarray(gold, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise InputError(f"cannot compare {x.size} gold values with {y.size} predicted values")
    if x.size < 2:
        raise InputError("a correlation needs at least two pairs")
    for name, side in (("gold", x), ("predicted", y)):
        if not np.isfinite(side).all():
            where = f"pair {int(np.argmin(np.isfinite(side))) + 1}"
            raise InputError(f"a {name} value is not a finite number", where=where)
    return x, y


def _standardised(values: FloatArray) -> FloatArray:
    if values.min() == values.max():
        return np.zeros_like(values)
    scaled = values / np.abs(values).max()
    centred = scaled - scaled.mean()
    spread = centred.std()
    result: FloatArray = centred / spread if spread > 0 else np.zeros_like(values)
    return result


def _correlation(sums: FloatArray) -> FloatArray:
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    spread = np.clip(n * xx - x * x, 0, None) * np.clip(n * yy - y * y, 0, None)
    # A resample of one document many times has no spread beyond rounding errors, and their quotient would be noise: score it 0.
    spread = np.where(spread > 1e-9 * n**4, spread, 0.0)
    result: FloatArray = np.clip(ratio(n * xy - x * y, np.sqrt(spread)), -1.0, 1.0)
    return result
