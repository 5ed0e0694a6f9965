"""Mean average precision: how far up a ranked list of labels the right ones stand, whatever probability they were given.

The score of coding shared tasks, where most of thousands of codes have next to no probability and a line drawn at one half says little.
A label that is not in the list adds nothing, but is one of those to be found. Documents without a gold label have no average precision
and stay out of the mean.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from osler.core.errors import InputError
from osler.metrics.scores import Decomposed, share


def average_precision(gold: Collection[str], ranked: Sequence[str]) -> float:
    """The mean, over the gold labels, of the precision at the rank of each; 0 for one that is not ranked."""
    wanted = set(gold)
    if len(set(ranked)) != len(ranked):
        raise InputError("a label is ranked twice", fix="Rank each label once, the most probable first")
    found, total = 0, 0.0
    for rank, label in enumerate(ranked, start=1):
        if label in wanted:
            found += 1
            total += found / rank
    return total / len(wanted) if wanted else 0.0


def score_ranking(gold: Sequence[Collection[str]], ranked: Sequence[Sequence[str]]) -> Decomposed:
    """Mean average precision in the form that significance tests take."""
    if len(gold) != len(ranked):
        raise InputError(f"{len(gold)} gold answers and {len(ranked)} rankings cannot be compared")
    rows = [(average_precision(want, have), bool(want)) for want, have in zip(gold, ranked, strict=True)]
    return Decomposed(np.array(rows, dtype=np.float64).reshape(-1, 2), share)
