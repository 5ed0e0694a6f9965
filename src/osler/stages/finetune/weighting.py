"""Class weights: labels that are rare in training count more, so that a few common ones do not drown them.

balanced: a label that n_c of N answers have counts N / (K n_c), K the labels that occur. Over all training data the weights have the
mean 1, so losses stay comparable with unweighted ones. They are computed from training instances alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from osler.tasks.instances.base import IGNORED, Instance


class ClassWeights:
    """What each answer counts: a weight for each label, or two for each label that may be there or not."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = torch.from_numpy(weights.astype(np.float32))

    def of(self, targets: Tensor) -> Tensor:
        """The weight of every answer of a batch: [T] or [N] for one label of many, [N, L] for any number of labels."""
        if self.weights.ndim == 1:
            return self.weights[targets.clamp(min=0)]
        present = torch.nan_to_num(targets)
        return present * self.weights[:, 1] + (1.0 - present) * self.weights[:, 0]


def balanced(instances: Sequence[Instance], outputs: int) -> ClassWeights | None:
    """The weights for these training instances; None where the target is a number, which has no frequency."""
    first = instances[0].target
    if isinstance(first, float):
        return None
    if isinstance(first, np.ndarray) and first.dtype == np.float32:
        rows = np.stack([instance.target for instance in instances])
        yes = (rows == 1.0).sum(axis=0)
        no = (rows == 0.0).sum(axis=0)
        return ClassWeights(np.stack([_inverse(pair) for pair in np.stack([no, yes], axis=1)]))
    targets = np.concatenate([np.atleast_1d(instance.target) for instance in instances])
    return ClassWeights(_inverse(np.bincount(targets[targets != IGNORED], minlength=outputs)))


def _inverse(counts: np.ndarray) -> np.ndarray:
    """N / (K n) for each count n; 1 for what never occurs and so never weighs."""
    present = counts > 0
    balanced = counts.sum() / (max(1, present.sum()) * np.maximum(counts, 1))
    return np.asarray(np.where(present, balanced, 1.0))
