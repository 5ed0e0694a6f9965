"""The Hallmarks of Cancer score: per abstract, precision and recall; their means; the harmonic mean of the two means.

Precision is precision: the script that came with the benchmark prints the two exchanged, which leaves F1 as it is.
An abstract with gold labels and no prediction has precision 0, as in that script. What the script cannot score (it
divides by zero) is settled here: an abstract without gold labels has no recall and stays out of its mean; it enters the
mean of precision, with 0, only where something was predicted for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from osler.core.errors import InputError
from osler.metrics.scores import Decomposed, FloatArray, ratio


@dataclass(frozen=True, eq=False)
class HocScores:
    """Per abstract: its precision and whether it has one, its recall and whether it has one."""

    rows: FloatArray

    @property
    def precision(self) -> float:
        """Mean precision over abstracts that have one."""
        total, number = self.rows[:, 0].sum(), self.rows[:, 1].sum()
        return float(total / number) if number else 0.0

    @property
    def recall(self) -> float:
        """Mean recall over abstracts that have gold labels."""
        total, number = self.rows[:, 2].sum(), self.rows[:, 3].sum()
        return float(total / number) if number else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of mean precision and mean recall (not the mean of F1)."""
        return float(_harmonic(self.rows.sum(axis=0)))

    @property
    def without_gold(self) -> int:
        """How many abstracts have no gold label."""
        return int((self.rows[:, 3] == 0).sum())

    def decomposed_f1(self) -> Decomposed:
        """F1 in the form that significance tests take."""
        return Decomposed(self.rows, _harmonic)

    def as_dict(self) -> dict[str, float]:
        """The three scores and the count of abstracts without gold, ready for JSON."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1, "without_gold": self.without_gold}


def score_hoc(gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]]) -> HocScores:
    """Score sets of labels, one set an abstract."""
    if len(gold) != len(predicted):
        raise InputError(f"{len(gold)} gold abstracts and {len(predicted)} predicted ones cannot be compared")
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


def unite_sentences(sentences: Iterable[tuple[str, Collection[str]]]) -> dict[str, set[str]]:
    """The labels of an abstract are those of any of its sentences; `sentences` gives (abstract id, labels)."""
    united: dict[str, set[str]] = {}
    for abstract, labels in sentences:
        united.setdefault(abstract, set()).update(labels)
    return united


def _harmonic(sums: FloatArray) -> FloatArray:
    precision = ratio(sums[..., 0], sums[..., 1])
    recall = ratio(sums[..., 2], sums[..., 3])
    return ratio(2 * precision * recall, precision + recall)
