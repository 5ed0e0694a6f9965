"""Expected calibration error: how far a model's confidence is from its accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from osler.core.errors import InputError


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Predictions with confidence in (low, high]: their number, mean confidence and accuracy."""

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float

    @property
    def gap(self) -> float:
        """Confidence minus accuracy: positive where the model is overconfident."""
        return self.confidence - self.accuracy


@dataclass(frozen=True, slots=True)
class Calibration:
    """Expected (count-weighted) and largest gap between confidence and accuracy, and the bins that are not empty."""

    expected_error: float
    largest_error: float
    bins: tuple[ReliabilityBin, ...]


def calibration(confidences: Sequence[float], correct: Sequence[bool], *, bins: int = 10) -> Calibration:
    """Bin predictions by confidence, in bins of equal width."""
    sure, right = np.asarray(confidences, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    if not ((sure >= 0) & (sure <= 1)).all():
        raise InputError("a confidence is not between 0 and 1", fix="Give probabilities, not logits or percentages")
    edges = np.linspace(0.0, 1.0, bins + 1)
    place = np.searchsorted(edges[1:-1], sure)
    filled = []
    for index in range(bins):
        inside = place == index
        if inside.any():
            low, high = float(edges[index]), float(edges[index + 1])
            filled.append(
                ReliabilityBin(low, high, int(inside.sum()), float(sure[inside].mean()), float(right[inside].mean()))
            )
    expected = sum(part.count * abs(part.gap) for part in filled) / sure.size
    return Calibration(expected, max(abs(part.gap) for part in filled), tuple(filled))
