"""One label for each sequence: a text, or a pair of texts in one sequence."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cross_entropy

from osler.nn.heads.base import IGNORED, SequenceHead, total


class Classification(SequenceHead):
    """Exactly one of the labels; targets [N], where -100 has no loss."""

    kind = "classification"

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Cross-entropy."""
        losses = cross_entropy(logits.float(), targets, ignore_index=IGNORED, reduction="none")
        return total(losses, targets != IGNORED, weights)
