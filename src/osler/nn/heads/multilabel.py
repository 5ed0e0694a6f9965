"""Any number of labels for each sequence."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from osler.nn.heads.base import SequenceHead, total


class MultiLabel(SequenceHead):
    """Each label yes or no; targets [N, L] of 0 and 1, where NaN is unknown and has no loss."""

    kind = "multilabel"

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Binary cross-entropy, averaged over the known labels of a sequence; a sequence with none does not count.

        Weights [N] count sequences; weights [N, L] count the answers within a sequence.
        """
        known = ~torch.isnan(targets)
        answers = torch.where(known, targets, 0.0).float()
        losses = binary_cross_entropy_with_logits(logits.float(), answers, reduction="none") * known
        if weights is not None and weights.ndim == 2:
            losses, weights = losses * weights, None
        labels = known.sum(dim=1)
        return total(losses.sum(dim=1) / labels.clamp(min=1), labels > 0, weights)
