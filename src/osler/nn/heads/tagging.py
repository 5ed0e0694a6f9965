"""One label for each token."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cross_entropy

from osler.nn.heads.base import IGNORED, Head, linear, total
from osler.nn.packing import Packed


class Tagging(Head):
    """A linear layer over every token; targets [T], -100 (padding, special, non-first sub-words) has no loss."""

    kind = "tagging"
    level = "token"

    def __init__(self, hidden_size: int, num_labels: int, dropout: float = 0.1) -> None:
        super().__init__(hidden_size, num_labels, dropout)
        self.classifier = linear(hidden_size, num_labels)

    def forward(self, hidden: Tensor, batch: Packed) -> Tensor:
        """Logits [T, L]."""
        logits: Tensor = self.classifier(self.dropout(hidden))
        return logits

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Cross-entropy."""
        losses = cross_entropy(logits.float(), targets, ignore_index=IGNORED, reduction="none")
        return total(losses, targets != IGNORED, weights)
