"""Mean average precision: how high the gold labels are in a ranked list of labels.

The metric of coding shared tasks, where most of thousands of codes have almost no probability and a threshold of one half
says little. A gold label missing from the list counts as not found. Documents without gold labels are left out of the mean.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from osler.core.errors import InputError
from osler.metrics.scores import Decomposed, check_same_length, share


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


def score_ranking(gold: Sequence[Collection[str]], ranked: Sequence[Sequence[str]]) -> Decomposed:
    """Mean average precision over documents."""
    check_same_length(gold, ranked, "documents")
    rows = [(average_precision(want, have), bool(want)) for want, have in zip(gold, ranked, strict=True)]
    return Decomposed(np.array(rows, dtype=np.float64).reshape(-1, 2), share)
