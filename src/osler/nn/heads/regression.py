"""One number for each sequence."""

from __future__ import annotations

import torch
from torch import Tensor

from osler.nn.heads.base import SequenceHead, total


class Regression(SequenceHead):
    """A value such as a similarity; targets [N], where NaN has no loss."""

    kind = "regression"

    def __init__(self, hidden_size: int, num_labels: int = 1, dropout: float = 0.1) -> None:
        if num_labels != 1:
            raise ValueError(f"regression gives one number, not {num_labels}")
        super().__init__(hidden_size, num_labels, dropout)

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Squared error."""
        known = ~torch.isnan(targets)
        values = torch.where(known, targets, 0.0).float()
        return total((logits.float().squeeze(1) - values).square(), known, weights)
