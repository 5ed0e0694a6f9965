"""Test which systems rank differently over many data sets: Friedman's test and Nemenyi's critical difference.

With few data sets the chi-square approximation is rough and the critical difference wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from osler.core.extras import require

_LEVEL = 0.05
"""The level of significance."""


@dataclass(frozen=True)
class RankTest:
    """Average ranks (1 is best) over data sets, and the groups of systems that do not differ."""

    names: tuple[str, ...]
    ranks: tuple[float, ...]
    """The average rank of each name."""
    sets: int
    """Number of data sets."""
    statistic: float
    p_value: float
    """Of Friedman's test: whether any system differs from any other."""
    difference: float
    """The critical difference of two average ranks."""
    cliques: tuple[tuple[str, ...], ...]
    """Groups of two or more names, best first, within which no difference was found."""
    level: float = _LEVEL

    @property
    def rejected(self) -> bool:
        """Whether Friedman's test finds a difference; only then are pairs compared."""
        return self.p_value < self.level


def rank_test(names: Sequence[str], scores: Sequence[Sequence[float]]) -> RankTest:
    """Rank systems on data sets (one row of scores per system, one column per data set; higher is better) and compare them."""
    stats = require("scipy.stats", "study")
    table = np.asarray(scores, dtype=np.float64)
    systems, sets = table.shape
    ranks = stats.rankdata(-table, axis=0)
    average = ranks.mean(axis=1)
    # Friedman's statistic, corrected for ties. SciPy's own needs three systems and gives NaN if all are equal.
    spread = float(((ranks - (systems + 1) / 2) ** 2).sum())
    between = float(((ranks.sum(axis=1) - sets * (systems + 1) / 2) ** 2).sum())
    statistic = (systems - 1) * between / spread if spread else 0.0
    p_value = float(stats.chi2.sf(statistic, systems - 1))
    quantile = float(stats.studentized_range.ppf(1 - _LEVEL, systems, np.inf))
    difference = quantile / math.sqrt(2) * math.sqrt(systems * (systems + 1) / (6 * sets))
    order = sorted(range(systems), key=lambda index: (average[index], index))
    within = difference if p_value < _LEVEL else math.inf
    cliques = _cliques([(names[index], float(average[index])) for index in order], within)
    return RankTest(tuple(names), tuple(float(rank) for rank in average), sets, statistic, p_value, difference, cliques)


def _cliques(ordered: Sequence[tuple[str, float]], difference: float) -> tuple[tuple[str, ...], ...]:
    """The longest sequences of ranks within the critical difference, without those inside others."""
    found: list[tuple[int, int]] = []
    for start, (_, rank) in enumerate(ordered):
        end = max(i for i, (_, other) in enumerate(ordered) if other - rank <= difference)
        if end > start and (not found or end > found[-1][1]):
            found.append((start, end))
    return tuple(tuple(name for name, _ in ordered[start : end + 1]) for start, end in found)
