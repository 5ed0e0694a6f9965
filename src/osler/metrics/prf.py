"""Precision, recall and F1 from counts, for one class and for many at once.

A ratio without a denominator (nothing predicted, nothing to find) is 0, as conlleval, seqeval and scikit-learn have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Divide element by element, 0 where the denominator is 0."""
    result: FloatArray = np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator != 0)
    return result


def f1_of_counts(counts: FloatArray) -> FloatArray:
    """F1 over the last axis, which holds true positives, false positives and false negatives."""
    counts = np.asarray(counts, dtype=np.float64)
    doubled = 2 * counts[..., 0]
    return ratio(doubled, doubled + counts[..., 1] + counts[..., 2])


@dataclass(frozen=True, slots=True)
class PRF:
    """True positives, false positives and false negatives, and the scores they give."""

    tp: float
    fp: float
    fn: float

    @classmethod
    def of(cls, counts: FloatArray) -> PRF:
        """Make one from an array of the three counts."""
        tp, fp, fn = (float(count) for count in counts)
        return cls(tp, fp, fn)

    @property
    def precision(self) -> float:
        """The share of what was predicted that is right."""
        predicted = self.tp + self.fp
        return self.tp / predicted if predicted else 0.0

    @property
    def recall(self) -> float:
        """The share of what should be found that was found."""
        gold = self.tp + self.fn
        return self.tp / gold if gold else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        total = 2 * self.tp + self.fp + self.fn
        return 2 * self.tp / total if total else 0.0

    @property
    def support(self) -> float:
        """How many there are in gold."""
        return self.tp + self.fn

    def as_dict(self) -> dict[str, Any]:
        """Counts and scores, ready for JSON."""
        return {
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "tp": self.tp,
            "fp": self.fp,
            "fn": self.fn,
        }
