"""Scores of single-label and multi-label classification."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from osler.metrics.scores import Decomposed, FloatArray, Scores, check_same_length, mean_of, score_sets


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
    check_same_length(gold, predicted, "answers")
    names = labels if labels is not None else sorted({*gold, *predicted})
    kept = [name for name in names if name not in ignore]
    scores = score_sets([{(name, 0)} for name in gold], [{(name, 0)} for name in predicted], kept)
    right = np.array([want == have for want, have in zip(gold, predicted, strict=True)], dtype=np.float64)
    return ClassScores(scores.labels, scores.counts, right)


def score_multilabel(
    gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]], *, labels: Sequence[str] | None = None
) -> ClassScores:
    """Score a set of labels per document."""
    check_same_length(gold, predicted, "answers")
    wanted = [{(name, 0) for name in names} for names in gold]
    found = [{(name, 0) for name in names} for names in predicted]
    scores = score_sets(wanted, found, labels)
    right = (scores.counts[:, :, 1:].sum(axis=(1, 2)) == 0).astype(np.float64)
    return ClassScores(scores.labels, scores.counts, right)
