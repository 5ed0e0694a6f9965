"""One label for a pair of mentions, read where the two begin instead of at the first token of the sequence."""

from __future__ import annotations

from torch import Tensor

from osler.nn.heads.base import linear
from osler.nn.heads.classification import Classification
from osler.nn.packing import Packed


class Markers(Classification):
    """The hidden states at the two start marks side by side, as Baldini Soares et al. (2019) read relations."""

    kind = "markers"

    def __init__(self, hidden_size: int, num_labels: int, dropout: float = 0.1) -> None:
        super().__init__(hidden_size, num_labels, dropout)
        self.dense = linear(2 * hidden_size, hidden_size)

    def read(self, hidden: Tensor, batch: Packed) -> Tensor:
        """The states at both marks [N, 2H]."""
        if batch.marks is None or batch.marks.shape[1] != 2:
            raise ValueError("this head reads two marks of each sequence, and the batch does not have them")
        return hidden.index_select(0, batch.marks.flatten()).view(batch.num_sequences, -1)
