"""Base classes and helpers of heads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from osler.nn.packing import Packed, least_rows

IGNORED = -100


class Head(nn.Module, ABC):
    """Hidden states in, logits out: one row per token, or one per real sequence."""

    kind: ClassVar[str]
    level: ClassVar[Literal["token", "sequence"]]

    def __init__(self, hidden_size: int, num_labels: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.num_labels = num_labels
        self.dropout = nn.Dropout(dropout)

    @abstractmethod
    def forward(self, hidden: Tensor, batch: Packed) -> Tensor:
        """Logits [T, L] or [N, L] for hidden states [T, H]."""

    @abstractmethod
    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Summed loss over the rows that have a target, and their number; `weights` gives each row a weight."""

    def batch_loss(
        self, logits: Tensor, targets: Tensor, batch: Packed, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Loss of a packed batch; overridden by heads whose rows depend on each other within a sequence."""
        return self.loss(logits, targets, weights)

    def name_outputs(self, labels: Sequence[str]) -> None:
        """Receive the labels of the outputs; overridden by heads whose labels have rules, such as tags."""

    def steps(self) -> Tensor | None:
        """Scores [L, L] of each label (row) followed by each other (column) for decoding; None if rows are independent."""
        return None


class SequenceHead(Head):
    """One row per sequence from its first token.

    `layers` is mlp (dense, tanh, projection, as in RoBERTa's classification head), linear (projection alone) or pooler (as mlp, but
    the dense layer is BERT's pooler: it starts from the checkpoint and has no dropout before it).
    """

    level = "sequence"

    def __init__(self, hidden_size: int, num_labels: int, dropout: float = 0.1, layers: str = "mlp") -> None:
        super().__init__(hidden_size, num_labels, dropout)
        if layers not in ("mlp", "linear", "pooler"):
            raise ValueError(f"a head is mlp, linear or pooler, not {layers}")
        self.layers = layers
        if layers != "linear":
            self.dense = linear(hidden_size, hidden_size)
        self.out_proj = linear(hidden_size, num_labels)

    def forward(self, hidden: Tensor, batch: Packed) -> Tensor:
        read = self.read(hidden, batch)
        count = len(read)
        # An exported graph would keep the number of rows it was traced with.
        padded = not torch.is_grad_enabled() and not torch.onnx.is_in_onnx_export()
        if padded:
            read = pad(read, (0, 0, 0, max(0, least_rows(read.device) - count)))
        if self.layers != "linear":
            read = torch.tanh(self.dense(read if self.layers == "pooler" else self.dropout(read)))
        logits: Tensor = self.out_proj(self.dropout(read))
        return logits[:count] if padded else logits

    def read(self, hidden: Tensor, batch: Packed) -> Tensor:
        """Hidden states that represent each sequence: those of its first token."""
        return hidden.index_select(0, batch.starts())


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer with BERT's initial weights."""
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=0.02)
    nn.init.zeros_(layer.bias)
    return layer


def total(losses: Tensor, known: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Weighted sum of the losses of the rows that have a target, and the sum of their weights."""
    share = known.float() if weights is None else known * weights.float()
    # Not only a product: the loss of a row without target may be NaN.
    return torch.where(known, losses * share, 0.0).sum(), share.sum()
