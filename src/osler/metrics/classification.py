"""Scores of one label each (a class) and of several labels each (multi-label)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osler.core.errors import InputError
from osler.metrics.scores import Decomposed, FloatArray, Scores, mean_of, score_sets


@dataclass(frozen=True, eq=False)
class ClassScores(Scores):
    """Scores with, for each item, whether its whole answer was right."""

    right: FloatArray

    @property
    def accuracy(self) -> float:
        """The share of items answered right; for multi-label items, every label of the item."""
        return float(self.right.mean()) if len(self.right) else 0.0

    def decomposed_accuracy(self) -> Decomposed:
        """Accuracy in the form that significance tests take."""
        return mean_of(self.right.tolist())

    def as_dict(self) -> dict[str, Any]:
        """Accuracy, averages and labels, ready for JSON."""
        return {"accuracy": self.accuracy, **super().as_dict()}


def score_classes(
    gold: Sequence[str], predicted: Sequence[str], *, labels: Sequence[str] | None = None, ignore: Collection[str] = ()
) -> ClassScores:
    """Score one class an item. Classes in `ignore` (a "false" class) stay out of F1: micro is then over positives only.

    Without `labels`, micro-F1 over all classes equals accuracy.
    """
    _same_length(gold, predicted)
    names = labels if labels is not None else sorted({*gold, *predicted})
    kept = [name for name in names if name not in ignore]
    scores = score_sets([{(name, 0)} for name in gold], [{(name, 0)} for name in predicted], kept)
    right = np.array([want == have for want, have in zip(gold, predicted, strict=True)], dtype=np.float64)
    return ClassScores(scores.labels, scores.counts, right)


def score_multilabel(
    gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]], *, labels: Sequence[str] | None = None
) -> ClassScores:
    """Score a set of labels an item."""
    _same_length(gold, predicted)
    wanted = [{(name, 0) for name in names} for names in gold]
    found = [{(name, 0) for name in names} for names in predicted]
    scores = score_sets(wanted, found, labels)
    right = (scores.counts[:, :, 1:].sum(axis=(1, 2)) == 0).astype(np.float64)
    return ClassScores(scores.labels, scores.counts, right)


def confusion(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> NDArray[np.int64]:
    """Count pairs: rows are gold classes, columns predicted ones, in the order of `labels`."""
    _same_length(gold, predicted)
    place = {label: index for index, label in enumerate(labels)}
    matrix = np.zeros((len(labels), len(labels)), dtype=np.int64)
    for want, have in zip(gold, predicted, strict=True):
        if want not in place or have not in place:
            raise InputError("a class is not among the given labels", fix="List every class that occurs")
        matrix[place[want], place[have]] += 1
    return matrix


def _same_length(gold: Sequence[object], predicted: Sequence[object]) -> None:
    if len(gold) != len(predicted):
        raise InputError(f"{len(gold)} gold answers and {len(predicted)} predicted ones cannot be compared")
