"""What a head is, and the shape that heads over whole sequences share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from osler.nn.packing import Packed

IGNORED = -100


class Head(nn.Module, ABC):
    """Hidden states in, logits out: a row for each token, or one for each real sequence."""

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
        """The summed loss over the rows that have a target, and their number; `weights` counts each row that much."""

    def batch_loss(
        self, logits: Tensor, targets: Tensor, batch: Packed, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The loss of a packed batch. Only a head whose rows depend on each other needs to know where sequences begin."""
        return self.loss(logits, targets, weights)

    def name_outputs(self, labels: Sequence[str]) -> None:
        """Told once what each output stands for; of use to a head whose labels have rules, such as tags."""

    def steps(self) -> Tensor | None:
        """What is added for each output [L, L] after each other, where rows are a chain; whoever decodes it needs them."""
        return None


class SequenceHead(Head):
    """One row a sequence from its first token: dense, tanh, projection, as RoBERTa's classification head."""

    level = "sequence"

    def __init__(self, hidden_size: int, num_labels: int, dropout: float = 0.1) -> None:
        super().__init__(hidden_size, num_labels, dropout)
        self.dense = linear(hidden_size, hidden_size)
        self.out_proj = linear(hidden_size, num_labels)

    def forward(self, hidden: Tensor, batch: Packed) -> Tensor:
        """Logits [N, L], N the real sequences of the batch."""
        pooled = torch.tanh(self.dense(self.dropout(self.read(hidden, batch))))
        logits: Tensor = self.out_proj(self.dropout(pooled))
        return logits

    def read(self, hidden: Tensor, batch: Packed) -> Tensor:
        """What of the hidden states stands for each sequence: its first token's."""
        return hidden.index_select(0, batch.starts())


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer with BERT's initial weights."""
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=0.02)
    nn.init.zeros_(layer.bias)
    return layer


def total(losses: Tensor, known: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Sum the losses of the rows that have a target, each times its weight, and the weights with them."""
    share = known.float() if weights is None else known * weights.float()
    # Not a product alone: a loss computed from a stand-in target must not bring a NaN in.
    return torch.where(known, losses * share, 0.0).sum(), share.sum()
