"""Heads with one row per sequence: classification, multi-label, regression and marked entity pairs."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from osler.nn.heads.base import IGNORED, SequenceHead, linear, total
from osler.nn.packing import Packed


class Classification(SequenceHead):
    """Exactly one label; targets [N], where -100 has no loss."""

    kind = "classification"

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
        losses = cross_entropy(logits.float(), targets, ignore_index=IGNORED, reduction="none")
        return total(losses, targets != IGNORED, weights)


class MultiLabel(SequenceHead):
    """Any number of labels; targets [N, L] of 0 and 1, where NaN is unknown and has no loss."""

    kind = "multilabel"

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Binary cross-entropy, averaged over the known labels of a sequence; a sequence without any does not count.

        Weights [N] weight sequences; weights [N, L] weight the labels within a sequence.
        """
        known = ~torch.isnan(targets)
        answers = torch.where(known, targets, 0.0).float()
        losses = binary_cross_entropy_with_logits(logits.float(), answers, reduction="none") * known
        if weights is not None and weights.ndim == 2:
            losses, weights = losses * weights, None
        labels = known.sum(dim=1)
        return total(losses.sum(dim=1) / labels.clamp(min=1), labels > 0, weights)


class Regression(SequenceHead):
    """A number such as a similarity; targets [N], where NaN has no loss."""

    kind = "regression"

    def __init__(self, hidden_size: int, num_labels: int = 1, dropout: float = 0.1, layers: str = "mlp") -> None:
        if num_labels != 1:
            raise ValueError(f"a regression head has one output, got {num_labels}")
        super().__init__(hidden_size, num_labels, dropout, layers)

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
        known = ~torch.isnan(targets)
        values = torch.where(known, targets, 0.0).float()
        return total((logits.float().squeeze(1) - values).square(), known, weights)


class Markers(Classification):
    """Classification of a relation from the hidden states at its two start markers (Baldini Soares et al., 2019)."""

    kind = "markers"

    def __init__(self, hidden_size: int, num_labels: int, dropout: float = 0.1, layers: str = "mlp") -> None:
        if layers == "pooler":
            raise ValueError("a pooler reads the first token, not markers")
        super().__init__(hidden_size, num_labels, dropout, layers)
        if layers == "linear":
            self.out_proj = linear(2 * hidden_size, num_labels)
        else:
            self.dense = linear(2 * hidden_size, hidden_size)

    def read(self, hidden: Tensor, batch: Packed) -> Tensor:
        """Hidden states at both markers [N, 2H]."""
        if batch.marks is None or batch.marks.shape[1] != 2:
            raise ValueError("a markers head needs two marks per sequence in the batch")
        return hidden.index_select(0, batch.marks.flatten()).view(batch.num_sequences, -1)
