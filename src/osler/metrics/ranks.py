"""Which of several systems rank differently over many data sets: Friedman's test, and Nemenyi's critical difference after it.

The critical difference is computed, not looked up, so any number of systems and any level will do. With few data sets the
approximation by a chi-square distribution is rough and the critical difference wide: that is the honest answer to few data sets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from osler.core.errors import InputError
from osler.metrics.scores import FloatArray


@dataclass(frozen=True)
class RankTest:
    """Average ranks (1 is best) over data sets, and the groups of systems that do not differ."""

    names: tuple[str, ...]
    ranks: tuple[float, ...]
    """The average rank of each name."""
    sets: int
    """How many data sets were ranked."""
    statistic: float
    p_value: float
    """Friedman's: whether any system differs from any other."""
    difference: float
    """The critical difference of two average ranks."""
    cliques: tuple[tuple[str, ...], ...]
    """Groups of names, best first, within which no difference was found; a name alone has none."""
    level: float = 0.05

    @property
    def rejected(self) -> bool:
        """Whether Friedman's test finds any difference; only then are pairs compared."""
        return self.p_value < self.level


def rank_test(names: Sequence[str], scores: Sequence[Sequence[float]], *, level: float = 0.05) -> RankTest:
    """Rank systems on data sets (one row of scores a system, one column a data set; higher is better) and compare them."""
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != len(names) or len(names) < 2 or not table.shape[1]:
        raise InputError("ranks need at least two systems and one data set, and a score of each on each")
    systems, sets = table.shape
    ranks = np.stack([_ranks(column) for column in table.T])
    average = ranks.mean(axis=0)
    statistic = _friedman(ranks)
    p_value = chi_square_tail(statistic, systems - 1)
    difference = studentized_range(systems, level) / math.sqrt(2) * math.sqrt(systems * (systems + 1) / (6 * sets))
    order = sorted(range(systems), key=lambda index: (average[index], index))
    within = difference if p_value < level else math.inf
    cliques = _cliques([(names[index], float(average[index])) for index in order], within)
    return RankTest(
        tuple(names), tuple(float(rank) for rank in average), sets, statistic, p_value, difference, cliques, level
    )


def _ranks(scores: FloatArray) -> FloatArray:
    """The rank of each score, the highest 1; equal scores share the mean of their ranks."""
    above = (scores[None, :] > scores[:, None]).sum(axis=1)
    equal = (scores[None, :] == scores[:, None]).sum(axis=1)
    ranks: FloatArray = above + (equal + 1) / 2
    return ranks


def _friedman(ranks: FloatArray) -> float:
    """Friedman's statistic, corrected for ties."""
    sets, systems = ranks.shape
    spread = float(((ranks - (systems + 1) / 2) ** 2).sum())
    if spread == 0:
        return 0.0
    between = float(((ranks.sum(axis=0) - sets * (systems + 1) / 2) ** 2).sum())
    return float((systems - 1) * between / spread)


def chi_square_tail(value: float, degrees: int) -> float:
    """The chance of a chi-square variable beyond a value; degrees of freedom are whole numbers, so the sum is finite."""
    half = value / 2
    if degrees % 2:
        tail, term, order = math.erfc(math.sqrt(half)), math.sqrt(half) * math.exp(-half) / math.gamma(1.5), 1.5
    else:
        tail, term, order = math.exp(-half), half * math.exp(-half), 2.0
    for _ in range((degrees - 1) // 2):
        tail += term
        term *= half / order
        order += 1
    return min(1.0, tail)


def studentized_range(systems: int, level: float) -> float:
    """The value that the range of so many standard normal variables exceeds with probability `level`."""
    points = np.arange(-8.0, 8.0, 0.008)
    density = np.exp(-(points**2) / 2) / math.sqrt(2 * math.pi)
    below = _normal(points)

    def beyond(width: float) -> float:
        inside = systems * density * (below - _normal(points - width)) ** (systems - 1)
        return 1.0 - float(inside.sum()) * 0.008  # nothing is left at the ends, so a plain sum is a trapezoid rule

    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle) > level else (low, middle)
    return high


def _normal(points: FloatArray) -> FloatArray:
    return np.array([0.5 * math.erfc(-point / math.sqrt(2)) for point in points.tolist()])


def _cliques(ordered: Sequence[tuple[str, float]], difference: float) -> tuple[tuple[str, ...], ...]:
    """The longest runs of neighbouring ranks that lie within the critical difference, without those inside others."""
    found: list[tuple[int, int]] = []
    for start, (_, rank) in enumerate(ordered):
        end = max(i for i, (_, other) in enumerate(ordered) if other - rank <= difference)
        if end > start and (not found or end > found[-1][1]):
            found.append((start, end))
    return tuple(tuple(name for name, _ in ordered[start : end + 1]) for start, end in found)
