"""The model as the training loop calls it."""

from __future__ import annotations

from torch import nn

from osler.nn.mlm import MaskedLM
from osler.stages.pretrain.batches import MaskedBatch
from osler.train.source import LossOutput


class MaskedLanguageModelling(nn.Module):
    """The summed cross-entropy of the masked tokens."""

    uses_every_parameter: bool

    def __init__(self, model: MaskedLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, payload: MaskedBatch) -> LossOutput:
        """The loss of one micro-batch."""
        loss_sum, _ = self.model(payload.batch, payload.positions, payload.targets)
        return LossOutput(loss_sum)
