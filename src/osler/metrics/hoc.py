"""The Hallmarks of Cancer score: harmonic mean of the mean precision and the mean recall over abstracts.

The benchmark's own script prints precision and recall under each other's name; here they have their usual meaning (F1 is
the same). As in that script, an abstract with gold labels and no prediction has precision 0. The script divides by zero on
an abstract without gold labels; here such an abstract has no recall, and has precision 0 only if something was predicted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from osler.metrics.scores import Decomposed, FloatArray, check_same_length, ratio


@dataclass(frozen=True, eq=False)
class HocScores:
    """One row per abstract: precision, whether it counts, recall, whether it counts."""

    rows: FloatArray

    @property
    def precision(self) -> float:
        total, number = self.rows[:, 0].sum(), self.rows[:, 1].sum()
        return float(total / number) if number else 0.0

    @property
    def recall(self) -> float:
        total, number = self.rows[:, 2].sum(), self.rows[:, 3].sum()
        return float(total / number) if number else 0.0

    @property
    def f1(self) -> float:
        return float(_harmonic(self.rows.sum(axis=0)))

    def decomposed_f1(self) -> Decomposed:
        """F1 as a function of sums over abstracts, for significance tests."""
        return Decomposed(self.rows, _harmonic)

    def as_dict(self) -> dict[str, float]:
        without_gold = int((self.rows[:, 3] == 0).sum())
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1, "without_gold": without_gold}


def score_hoc(gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]]) -> HocScores:
    """Score one set of labels per abstract."""
    check_same_length(gold, predicted, "abstracts")
    rows = np.zeros((len(gold), 4))
    for row, (want, have) in enumerate(zip(gold, predicted, strict=True)):
        wanted, found = set(want), set(have)
        common = len(wanted & found)
        if found:
            rows[row, 0] = common / len(found)
        if wanted:
            rows[row, 2] = common / len(wanted)
        rows[row, 1] = bool(wanted or found)
        rows[row, 3] = bool(wanted)
    return HocScores(rows)


def _harmonic(sums: FloatArray) -> FloatArray:
    precision = ratio(sums[..., 0], sums[..., 1])
    recall = ratio(sums[..., 2], sums[..., 3])
    return ratio(2 * precision * recall, precision + recall)
