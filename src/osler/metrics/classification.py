"""Scores of single-label and multi-label classification, with the Hallmarks of Cancer score and mean average precision."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from osler.core.errors import InputError
from osler.metrics.scores import Decomposed, FloatArray, Scores, check_same_length, mean_of, ratio, score_sets, share


@dataclass(frozen=True, eq=False)
class ClassScores(Scores):
    """Scores with, per document, 1 where every label is right and 0 elsewhere."""

    right: FloatArray

    @property
    def accuracy(self) -> float:
        return float(self.right.mean()) if len(self.right) else 0.0

    def decomposed_accuracy(self) -> Decomposed:
        """Accuracy as a sum over documents, for significance tests."""
        return mean_of(self.right.tolist())

    def as_dict(self) -> dict[str, Any]:
        return {"accuracy": self.accuracy, **super().as_dict()}


def score_classes(
    gold: Sequence[str], predicted: Sequence[str], *, labels: Sequence[str] | None = None, ignore: Collection[str] = ()
) -> ClassScores:
    """Score one class per document. Classes in `ignore`, such as "false", do not count towards F1.

    Without `labels` and `ignore`, micro-F1 equals accuracy.
    """
    names = labels if labels is not None else sorted({*gold, *predicted})
    kept = [name for name in names if name not in ignore]
    scores = score_sets([{(name, 0)} for name in gold], [{(name, 0)} for name in predicted], kept)
    right = np.array([want == have for want, have in zip(gold, predicted, strict=True)], dtype=np.float64)
    return ClassScores(scores.labels, scores.counts, right)


def score_multilabel(
    gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]], *, labels: Sequence[str] | None = None
) -> ClassScores:
    """Score a set of labels per document."""
    wanted = [{(name, 0) for name in names} for names in gold]
    found = [{(name, 0) for name in names} for names in predicted]
    scores = score_sets(wanted, found, labels)
    right = (scores.counts[:, :, 1:].sum(axis=(1, 2)) == 0).astype(np.float64)
    return ClassScores(scores.labels, scores.counts, right)


@dataclass(frozen=True, eq=False)
class HocScores:
    """The Hallmarks of Cancer score: harmonic mean of the mean precision and the mean recall over abstracts.

    The benchmark's own script prints precision and recall under each other's name; here they have their usual meaning (F1
    is the same). As in that script, an abstract with gold labels and no prediction has precision 0. The script divides by
    zero on an abstract without gold labels; here such an abstract has no recall, and has precision 0 only if something was
    predicted. `rows` has one row per abstract: precision, whether it counts, recall, whether it counts.
    """

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


def score_ranking(gold: Sequence[Collection[str]], ranked: Sequence[Sequence[str]]) -> Decomposed:
    """Mean average precision over documents: how high the gold labels are in a ranked list of labels.

    The metric of coding shared tasks, where most of thousands of codes have almost no probability and a threshold of one
    half says little. Documents without gold labels are left out of the mean.
    """
    check_same_length(gold, ranked, "documents")
    rows = [(average_precision(want, have), bool(want)) for want, have in zip(gold, ranked, strict=True)]
    return Decomposed(np.array(rows, dtype=np.float64).reshape(-1, 2), share)


def average_precision(gold: Collection[str], ranked: Sequence[str]) -> float:
    """Mean, over the gold labels, of the precision at the rank of each; 0 for a label that is not ranked."""
    wanted = set(gold)
    if len(set(ranked)) != len(ranked):
        raise InputError("a label is ranked twice", fix="Rank each label once, the most probable first")
    found, total = 0, 0.0
    for rank, label in enumerate(ranked, start=1):
        if label in wanted:
            found += 1
            total += found / rank
    return total / len(wanted) if wanted else 0.0
