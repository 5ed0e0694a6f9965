"""How far confidence is from accuracy: expected calibration error and the bins behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from osler.core.errors import InputError


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Predictions with confidence in (low, high]: how many, how sure on average, how often right."""

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float

    @property
    def gap(self) -> float:
        """Confidence minus accuracy: above zero where the model is too sure."""
        return self.confidence - self.accuracy


@dataclass(frozen=True, slots=True)
class Calibration:
    """Expected (count-weighted) and largest gap between confidence and accuracy, with the bins that are not empty."""

    expected_error: float
    largest_error: float
    bins: tuple[ReliabilityBin, ...]


def calibration(
    confidences: Sequence[float],
    correct: Sequence[bool],
    *,
    bins: int = 10,
    strategy: Literal["uniform", "quantile"] = "uniform",
) -> Calibration:
    """Bin predictions by confidence: `uniform` bins have equal width, `quantile` bins about equal counts."""
    sure, right = np.asarray(confidences, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    if sure.shape != right.shape or sure.ndim != 1 or not sure.size:
        raise InputError(f"{sure.size} confidences and {right.size} outcomes cannot be compared")
    if not ((sure >= 0) & (sure <= 1)).all():
        raise InputError("a confidence is not between 0 and 1", fix="Give probabilities, not logits or percentages")
    if bins < 1:
        raise InputError("calibration needs at least one bin")
    grid = np.linspace(0.0, 1.0, bins + 1)
    edges = grid if strategy == "uniform" else np.unique(np.quantile(sure, grid))
    place = np.searchsorted(edges[1:-1], sure)
    held = []
    for index in range(max(len(edges) - 1, 1)):
        inside = place == index
        if inside.any():
            low, high = float(edges[index]), float(edges[min(index + 1, len(edges) - 1)])
            held.append(
                ReliabilityBin(low, high, int(inside.sum()), float(sure[inside].mean()), float(right[inside].mean()))
            )
    expected = sum(part.count * abs(part.gap) for part in held) / sure.size
    return Calibration(expected, max(abs(part.gap) for part in held), tuple(held))
