"""What every set-based scorer returns: counts for each document and label, and the averages over them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from osler.core.errors import InputError
from osler.metrics.decomposed import Decomposed
from osler.metrics.prf import PRF, FloatArray, f1_of_counts

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
