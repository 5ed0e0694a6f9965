"""The multi-head model as the training loop calls it: one batch teaches one head, by its gold labels, a teacher's, or both."""

from __future__ import annotations

from torch import nn

from osler.nn.distillation import soft_loss
from osler.nn.multihead import MultiHeadModel
from osler.stages.finetune.batches import TaskBatch
from osler.stages.finetune.config import TaskTeacher
from osler.train.source import LossOutput


class MultiTask(nn.Module):
    """(1 - weight) of the loss by gold labels and weight of the loss by soft ones; by gold alone without a teacher."""

    def __init__(self, model: MultiHeadModel, teacher: TaskTeacher | None = None) -> None:
        super().__init__()
        self.model = model
        self.teacher = teacher

    def forward(self, payload: TaskBatch) -> LossOutput:
        """The loss of one micro-batch, summed over its labels; the parts are logged as means."""
        name = payload.head
        head = self.model.head(name)
        logits = self.model(payload.batch, [name])[name]
        hard, count = head.loss(logits, payload.targets)
        count = count.clamp(min=1)
        if self.teacher is None or payload.soft is None:
            return LossOutput(hard, {f"loss/{name}": hard.detach() / count})
        soft = soft_loss(head, logits, payload.soft, payload.targets, self.teacher.temperature)
        weight = self.teacher.weight
        # With soft labels alone gold must not even bring in a loss that is not finite, so it is no factor of 0.
        loss = soft if weight == 1.0 else (1.0 - weight) * hard + weight * soft
        parts = {"loss": loss, "hard": hard, "soft": soft}
        return LossOutput(loss, {f"{part}/{name}": value.detach() / count for part, value in parts.items()})
