"""Precision, recall and F1 from counts, per document and label, and scores decomposed for the bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from osler.core.errors import InputError

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


@dataclass(frozen=True)
class Decomposed:
    """A score as `score(rows.sum(axis=0))`; `score` maps an array of such sums (…, k) to an array of scores (…)."""

    rows: FloatArray
    score: Callable[[FloatArray], FloatArray]

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or not len(self.rows):
            raise InputError("a score over documents needs at least one document")

    @property
    def value(self) -> float:
        """The score over all documents."""
        return float(self.score(self.rows.sum(axis=0)))


def mean_of(values: Sequence[float]) -> Decomposed:
    """The mean of one value a document (or a run)."""
    column = np.asarray(values, dtype=np.float64)
    return Decomposed(np.stack([column, np.ones_like(column)], axis=1), share)


def share(sums: FloatArray) -> FloatArray:
    """The first sum divided by the second: a mean, a rate, an accuracy."""
    return ratio(sums[..., 0], sums[..., 1])


def mean_over_parts(parts: Sequence[Decomposed]) -> Decomposed:
    """The mean of the scores of several parts that share no document, such as the folds of a cross-validation.

    Every part has columns of its own, so that documents of all parts can be drawn together.
    """
    widths = [part.rows.shape[1] for part in parts]
    rows = np.zeros((sum(len(part.rows) for part in parts), sum(widths)))
    row, edges = 0, [0, *np.cumsum(widths).tolist()]
    for index, part in enumerate(parts):
        rows[row : row + len(part.rows), edges[index] : edges[index + 1]] = part.rows
        row += len(part.rows)

    def score(sums: FloatArray) -> FloatArray:
        scores = [part.score(sums[..., edges[i] : edges[i + 1]]) for i, part in enumerate(parts)]
        mean: FloatArray = np.mean(scores, axis=0)
        return mean

    return Decomposed(rows, score)


Item = tuple[str, Hashable]
Average = Literal["micro", "macro"]


@dataclass(frozen=True, eq=False)
class Scores:
    """Counts of shape (documents, labels, 3): true positives, false positives, false negatives."""

    labels: tuple[str, ...]
    counts: FloatArray

    @cached_property
    def micro(self) -> PRF:
        """All labels pooled."""
        return PRF.of(self.counts.sum(axis=(0, 1)))

    @cached_property
    def per_label(self) -> dict[str, PRF]:
        """Each label alone."""
        totals = self.counts.sum(axis=0)
        return {label: PRF.of(totals[index]) for index, label in enumerate(self.labels)}

    @property
    def macro_f1(self) -> float:
        """The mean of the labels' F1, each label counting the same."""
        return float(np.mean(f1_of_counts(self.counts.sum(axis=0)))) if self.labels else 0.0

    def f1(self, average: Average = "micro") -> Decomposed:
        """F1 in the form that significance tests take."""
        documents = len(self.counts)
        if average == "micro" or not self.labels:
            return Decomposed(self.counts.sum(axis=1), f1_of_counts)
        width = len(self.labels)

        def macro(sums: FloatArray) -> FloatArray:
            means: FloatArray = f1_of_counts(sums.reshape(*sums.shape[:-1], width, 3)).mean(axis=-1)
            return means

        return Decomposed(self.counts.reshape(documents, width * 3), macro)

    def as_dict(self) -> dict[str, Any]:
        """Averages and labels, ready for JSON."""
        return {
            "micro": self.micro.as_dict(),
            "macro_f1": self.macro_f1,
            "per_label": {label: prf.as_dict() for label, prf in self.per_label.items()},
        }


def labels_of(*sides: Sequence[Collection[Item]]) -> tuple[str, ...]:
    """Every label that occurs on any side, sorted."""
    return tuple(sorted({label for side in sides for items in side for label, _ in items}))


def score_sets(
    gold: Sequence[Collection[Item]], predicted: Sequence[Collection[Item]], labels: Sequence[str] | None = None
) -> Scores:
    """Compare two sets of (label, key) for each document; `labels` limits what counts and fixes the macro average."""
    if len(gold) != len(predicted):
        raise InputError(f"{len(gold)} gold documents and {len(predicted)} predicted ones cannot be compared")
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
