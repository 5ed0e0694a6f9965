"""Uncertainty of scores: bootstrap over documents and seeds, paired comparison, correction for multiple comparisons.

A system is a sequence of `Decomposed` scores, one per seed, over the same documents. A draw takes documents with replacement
(the same ones for every seed and system) and seeds with replacement (each system its own), and averages the score over the
drawn seeds. With one seed only documents vary. With few seeds the spread between seeds is somewhat underestimated, as in any
bootstrap of a small sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from osler.core.errors import InputError
from osler.core.seeding import generator
from osler.metrics.scores import Decomposed, FloatArray

_BOUNDS = [(1 - 0.95) / 2, (1 + 0.95) / 2]
_CELLS = 4_000_000  # draws are made in blocks of at most this many document indices: 32 MB


@dataclass(frozen=True, slots=True)
class Interval:
    """A score with its bootstrap percentile interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """Two systems, their difference (first minus second) with its interval, and a two-sided p-value."""

    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class Summary:
    """Mean, spread and median over runs; `std` is the sample standard deviation (n - 1), 0 for a single run."""

    n: int
    mean: float
    std: float
    median: float
    low: float
    high: float


def summarise(values: Sequence[float]) -> Summary:
    """Summarise the scores of several runs."""
    runs = np.asarray(values, dtype=np.float64)
    std = float(runs.std(ddof=1)) if runs.size > 1 else 0.0
    return Summary(runs.size, float(runs.mean()), std, float(np.median(runs)), float(runs.min()), float(runs.max()))


def bootstrap_interval(system: Sequence[Decomposed], *, resamples: int = 10_000, seed: int = 0) -> Interval:
    """The 95 % interval of one system's score over documents and, if there are several, seeds."""
    low, high = np.quantile(_draws([system], resamples, seed)[0], _BOUNDS)
    return Interval(_mean_value(system), float(low), float(high))


def paired_bootstrap(
    first: Sequence[Decomposed], second: Sequence[Decomposed], *, resamples: int = 10_000, seed: int = 0
) -> PairedComparison:
    """Compare two systems on the same documents, with a 95 % interval of their difference.

    The p-value is twice the smaller share of draws at or beyond zero, counting the observed difference, so it is never 0.
    """
    drawn = _draws([first, second], resamples, seed)
    differences = drawn[0] - drawn[1]
    differences[np.abs(differences) < 1e-12] = 0.0  # a tie: sums in another order differ in the last digits
    low, high = np.quantile(differences, _BOUNDS)
    smaller = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
    p_value = min(1.0, 2 * (smaller + 1) / (resamples + 1))
    a, b = _mean_value(first), _mean_value(second)
    return PairedComparison(a, b, a - b, float(low), float(high), p_value)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct the p-values of several comparisons with Holm's method, which controls the family-wise error rate."""
    raw = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(raw, kind="stable")
    stepped = np.maximum.accumulate(raw[order] * np.arange(raw.size, 0, -1))
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in adjusted]


def _mean_value(seeds: Sequence[Decomposed]) -> float:
    return float(np.mean([run.value for run in seeds]))


def _draws(systems: Sequence[Sequence[Decomposed]], resamples: int, seed: int) -> list[FloatArray]:
    """One array of resampled scores per system, on common draws of documents."""
    sizes = {len(run.rows) for runs in systems for run in runs}
    if len(sizes) != 1:
        raise InputError(
            f"runs cover different numbers of documents: {', '.join(str(size) for size in sorted(sizes))}",
            fix="Compare runs on the same documents in the same order",
        )
    documents = sizes.pop()
    stream = generator(seed, "bootstrap", "documents")
    scores = [np.empty((len(runs), resamples)) for runs in systems]
    block = max(1, _CELLS // documents)
    for begin in range(0, resamples, block):
        number = min(block, resamples - begin)
        weights = _draw_counts(stream, number, documents)
        for runs, table in zip(systems, scores, strict=True):
            for index, run in enumerate(runs):
                table[index, begin : begin + number] = run.score(weights @ run.rows)
    return [_average_seeds(table, seed, place) for place, table in enumerate(scores)]


def _draw_counts(stream: np.random.Generator, number: int, documents: int) -> FloatArray:
    """How often each document is in each draw."""
    drawn = stream.integers(0, documents, size=(number, documents))
    drawn += np.arange(number)[:, None] * documents
    counts = np.bincount(drawn.ravel(), minlength=number * documents)
    return counts.reshape(number, documents).astype(np.float64)


def _average_seeds(table: FloatArray, seed: int, system: int) -> FloatArray:
    runs, resamples = table.shape
    if runs == 1:
        only: FloatArray = table[0]
        return only
    picked = generator(seed, "bootstrap", "seeds", system).integers(0, runs, size=(runs, resamples))
    averaged: FloatArray = np.take_along_axis(table, picked, axis=0).mean(axis=0)
    return averaged
