"""Precision, recall and F1 from counts per document and label, and scores decomposed over documents for the bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from osler.core.errors import InputError

FloatArray = NDArray[np.float64]
Item = tuple[str, Hashable]
"""A label and a key that identifies the labelled item."""


@dataclass(frozen=True, slots=True)
class PRF:
    """Precision, recall and F1 of true positives, false positives and false negatives; 0 if undefined."""

    tp: float
    fp: float
    fn: float

    @property
    def precision(self) -> float:
        predicted = self.tp + self.fp
        return self.tp / predicted if predicted else 0.0

    @property
    def recall(self) -> float:
        gold = self.tp + self.fn
        return self.tp / gold if gold else 0.0

    @property
    def f1(self) -> float:
        total = 2 * self.tp + self.fp + self.fn
        return 2 * self.tp / total if total else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1, **asdict(self)}


@dataclass(frozen=True, eq=False)
class Scores:
    """Counts of shape (documents, labels, 3): true positives, false positives, false negatives."""

    labels: tuple[str, ...]
    counts: FloatArray

    @cached_property
    def micro(self) -> PRF:
        return PRF(*self.counts.sum(axis=(0, 1)).tolist())

    @cached_property
    def per_label(self) -> dict[str, PRF]:
        totals = self.counts.sum(axis=0).tolist()
        return {label: PRF(*counts) for label, counts in zip(self.labels, totals, strict=True)}

    @property
    def macro_f1(self) -> float:
        """Mean F1 of the labels, each with the same weight."""
        return float(np.mean(_f1_of_counts(self.counts.sum(axis=0)))) if self.labels else 0.0

    def f1(self, average: Literal["micro", "macro"] = "micro") -> Decomposed:
        """F1 as a sum over documents, for significance tests."""
        if average == "micro" or not self.labels:
            return Decomposed(self.counts.sum(axis=1), _f1_of_counts)
        documents, width, _ = self.counts.shape

        def macro(sums: FloatArray) -> FloatArray:
            means: FloatArray = _f1_of_counts(sums.reshape(*sums.shape[:-1], width, 3)).mean(axis=-1)
            return means

        return Decomposed(self.counts.reshape(documents, width * 3), macro)

    def decomposed(self) -> dict[str, Decomposed]:
        """Every average by its name, each as a function of sums over documents."""
        sums = self.counts.sum(axis=1)
        return {
            "f1": self.f1("micro"),
            "precision": Decomposed(sums, lambda counts: ratio(counts[..., 0], counts[..., 0] + counts[..., 1])),
            "recall": Decomposed(sums, lambda counts: ratio(counts[..., 0], counts[..., 0] + counts[..., 2])),
            "macro_f1": self.f1("macro"),
        }

    def as_dict(self) -> dict[str, Any]:
        return {
            "micro": self.micro.as_dict(),
            "macro_f1": self.macro_f1,
            "per_label": {label: prf.as_dict() for label, prf in self.per_label.items()},
        }


def score_sets(
    gold: Sequence[Collection[Item]], predicted: Sequence[Collection[Item]], labels: Sequence[str] | None = None
) -> Scores:
    """Compare two sets of (label, key) per document. Only `labels` count, and the macro average is over all of them."""
    check_same_length(gold, predicted, "documents")
    names = tuple(labels) if labels is not None else labels_of(gold, predicted)
    column = {label: index for index, label in enumerate(names)}
    counts = np.zeros((len(gold), len(names), 3))
    for row, (want, have) in enumerate(zip(gold, predicted, strict=True)):
        wanted, found = set(want), set(have)
        for place, items in enumerate((wanted & found, found - wanted, wanted - found)):
            for label, _ in items:
                if label in column:
                    counts[row, column[label], place] += 1
    return Scores(names, counts)


def labels_of(*sides: Sequence[Collection[Item]]) -> tuple[str, ...]:
    """Every label that occurs on any side, sorted."""
    return tuple(sorted({label for side in sides for items in side for label, _ in items}))


def check_same_length(gold: Sequence[object], predicted: Sequence[object], what: str) -> None:
    """Refuse to compare two sides of different lengths."""
    if len(gold) != len(predicted):
        raise InputError(
            f"cannot compare {len(gold)} gold {what} with {len(predicted)} predicted {what}",
            fix=f"Predict all of the gold {what}, in the same order",
        )


@dataclass(frozen=True)
class Decomposed:
    """A score that equals `score(rows.sum(axis=0))`, with one row per document.

    `score` maps sums of shape (…, k) to scores of shape (…), so many resamples are scored at once.
    """

    rows: FloatArray
    score: Callable[[FloatArray], FloatArray]

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or not len(self.rows):
            raise InputError("a score needs at least one document")

    @property
    def value(self) -> float:
        """The score over all documents."""
        return float(self.score(self.rows.sum(axis=0)))


def mean_of(values: Sequence[float]) -> Decomposed:
    """Mean of one value per document (or per run)."""
    column = np.asarray(values, dtype=np.float64)
    return Decomposed(np.stack([column, np.ones_like(column)], axis=1), share)


def over_parts(parts: Sequence[Decomposed], average: Literal["mean", "median"] = "mean") -> Decomposed:
    """Mean or median score of several parts that share no document, such as the folds of a cross-validation.

    Each part has its own columns, so documents of all parts can be resampled together.
    """
    widths = [part.rows.shape[1] for part in parts]
    rows = np.zeros((sum(len(part.rows) for part in parts), sum(widths)))
    row, edges = 0, [0, *np.cumsum(widths).tolist()]
    for index, part in enumerate(parts):
        rows[row : row + len(part.rows), edges[index] : edges[index + 1]] = part.rows
        row += len(part.rows)

    def score(sums: FloatArray) -> FloatArray:
        scores = [part.score(sums[..., edges[i] : edges[i + 1]]) for i, part in enumerate(parts)]
        averaged: FloatArray = (np.median if average == "median" else np.mean)(scores, axis=0)
        return averaged

    return Decomposed(rows, score)


def share(sums: FloatArray) -> FloatArray:
    """First sum divided by the second: a mean, a rate or an accuracy."""
    return ratio(sums[..., 0], sums[..., 1])


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Divide element by element, 0 where the denominator is 0."""
    result: FloatArray = np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator != 0)
    return result


def _f1_of_counts(counts: FloatArray) -> FloatArray:
    doubled = 2 * counts[..., 0]
    return ratio(doubled, doubled + counts[..., 1] + counts[..., 2])
