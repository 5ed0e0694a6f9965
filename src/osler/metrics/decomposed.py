"""Scores taken apart into one row of sums for each document, which is what makes a bootstrap cheap.

F1, accuracy, a mean, a correlation: each is a function of sums over documents. Drawing documents again is then a
product of a matrix of draw counts with the rows, and ten thousand draws take a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from osler.core.errors import InputError
from osler.metrics.prf import FloatArray, ratio


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
