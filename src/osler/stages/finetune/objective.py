"""The multi-head model as the training loop calls it: one batch teaches one head, by its gold labels, a teacher's, or both."""

from __future__ import annotations

import torch
from torch import nn

from osler.nn.distillation import soft_loss
from osler.nn.mlm import MaskedLM, masked_loss
from osler.nn.multihead import MultiHeadModel
from osler.stages.finetune.batches import TaskBatch
from osler.stages.finetune.config import TaskTeacher
from osler.stages.finetune.mlm_task import NAME, MaskedText
from osler.train.source import LossOutput


class MultiTask(nn.Module):
    """(1 - weight) of the loss by gold labels and weight of the loss by soft ones; by gold alone without a teacher.

    `language` is a masked language model around the very encoder of `model`, for the batches of raw text.
    """

    def __init__(
        self, model: MultiHeadModel, teacher: TaskTeacher | None = None, language: MaskedLM | None = None
    ) -> None:
        super().__init__()
        self.model = model
        self.teacher = teacher
        self.language = language

    def forward(self, payload: TaskBatch | MaskedText) -> LossOutput:
        """The loss of one micro-batch, summed over its labels, times its factor; the parts are logged as means."""
        if isinstance(payload, MaskedText):
            return self._masked(payload)
        name = payload.task or payload.head
        head = self.model.head(payload.head)
        logits = self.model(payload.batch, [payload.head])[payload.head]
        if payload.partial is not None:
            logits = payload.partial.narrowed(logits)
        hard, count = head.batch_loss(logits, payload.targets, payload.batch, payload.weights)
        count = count.clamp(min=1)
        if self.teacher is None or payload.soft is None:
            return LossOutput(_scaled(hard, payload.scale), {f"loss/{name}": hard.detach() / count})
        soft = soft_loss(head, logits, payload.soft, payload.targets, self.teacher.temperature)
        weight = self.teacher.weight
        # With soft labels alone gold must not even bring in a loss that is not finite, so it is no factor of 0.
        loss = soft if weight == 1.0 else (1.0 - weight) * hard + weight * soft
        parts = {"loss": loss, "hard": hard, "soft": soft}
        logs = {f"{part}/{name}": value.detach() / count for part, value in parts.items()}
        return LossOutput(_scaled(loss, payload.scale), logs)

    def _masked(self, payload: MaskedText) -> LossOutput:
        assert self.language is not None
        hidden = self.model.encoder(payload.batch).index_select(0, payload.positions)
        loss, count = masked_loss(self.language.padded_head(hidden), payload.targets)
        return LossOutput(_scaled(loss, payload.scale), {f"loss/{NAME}": loss.detach() / count.clamp(min=1)})


def _scaled(loss: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
    return loss if scale is None else loss * scale
