"""The multi-head model for the training loop: its loss, frozen layers and LoRA adapters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import nn

from osler.core.errors import RecipeError
from osler.core.extras import require
from osler.nn.distillation import soft_loss
from osler.nn.encoder import PackedEncoder
from osler.nn.folders import seeded
from osler.nn.mlm import MaskedLM, masked_loss
from osler.nn.multihead import MultiHeadModel
from osler.stages.finetune.batches import TaskBatch
from osler.stages.finetune.config import MLM, Lora, TaskTeacher
from osler.stages.finetune.mlm_task import MaskedText
from osler.train.optim import count_layers, depths
from osler.train.source import LossOutput

Freeze = Literal["nothing", "embeddings", "encoder"] | int


class MultiTask(nn.Module):
    """Computes the loss of a batch of any task.

    With a teacher, the loss is `weight` times that on soft labels plus `1 - weight` times that on gold labels. `language` is a masked
    language model that shares the encoder of `model`, for batches of raw text.
    """

    def __init__(
        self, model: MultiHeadModel, teacher: TaskTeacher | None = None, language: MaskedLM | None = None
    ) -> None:
        super().__init__()
        self.model = model
        self.teacher = teacher
        self.language = language

    def forward(self, payload: TaskBatch | MaskedText) -> LossOutput:
        """Return the scaled loss summed over labels, and the mean losses to log."""
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
        # At weight 1 the gold loss is skipped rather than multiplied by 0, because it may be infinite.
        loss = soft if weight == 1.0 else (1.0 - weight) * hard + weight * soft
        parts = {"loss": loss, "hard": hard, "soft": soft}
        logs = {f"{part}/{name}": value.detach() / count for part, value in parts.items()}
        return LossOutput(_scaled(loss, payload.scale), logs)

    def _masked(self, payload: MaskedText) -> LossOutput:
        assert self.language is not None
        hidden = self.model.encoder(payload.batch).index_select(0, payload.positions)
        loss, count = masked_loss(self.language.padded_head(hidden), payload.targets)
        return LossOutput(_scaled(loss, payload.scale), {f"loss/{MLM}": loss.detach() / count.clamp(min=1)})


def _scaled(loss: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
    return loss if scale is None else loss * scale


def freeze(encoder: PackedEncoder, what: Freeze) -> int:
    """Freeze a part of the encoder and return the number of frozen parameters."""
    known = depths(encoder)
    layers = count_layers(known)
    if isinstance(what, int) and not 0 <= what <= layers:
        raise RecipeError(
            f"freeze = {what}, but the encoder has {layers} layers",
            fix=f'Give a number up to {layers}, or "encoder" for all of it',
        )
    first_trained = what if isinstance(what, int) else 0
    frozen = 0
    for name, parameter in encoder.named_parameters():
        if what == "encoder" or (what != "nothing" and known[name] < first_trained):
            parameter.requires_grad_(False)
            frozen += parameter.numel()
    return frozen


def train_only(model: MultiHeadModel, heads: Sequence[str]) -> None:
    """Freeze everything but these heads."""
    model.requires_grad_(False)
    for name in heads:
        model.head(name).requires_grad_(True)


def add_adapters(encoder: PackedEncoder, settings: Lora, seed: int) -> int:
    """Add LoRA adapters to all linear layers of the transformer, freeze the rest, and return the number of trainable parameters."""
    peft: Any = require("peft", "peft")
    targets = [
        name
        for name, part in encoder.model.named_modules()
        if isinstance(part, nn.Linear) and any(step.isdigit() for step in name.split("."))
    ]
    if not targets:
        raise RecipeError("lora: the encoder has no numbered layers", fix="Remove lora")
    config = peft.LoraConfig(
        r=settings.rank, lora_alpha=settings.alpha, lora_dropout=settings.dropout, target_modules=targets, bias="none"
    )
    with seeded(seed, "lora"):
        peft.inject_adapter_in_model(config, encoder.model)
    for name, parameter in encoder.named_parameters():
        parameter.requires_grad_("lora_" in name)
    encoder.model.train(encoder.training)
    return sum(parameter.numel() for parameter in encoder.parameters() if parameter.requires_grad)


def merge_adapters(encoder: PackedEncoder) -> None:
    """Merge all adapters into the encoder's weights."""
    tuners: Any = require("peft.tuners.tuners_utils", "peft")
    for name, part in list(encoder.model.named_modules()):
        if isinstance(part, tuners.BaseTunerLayer):
            adapter: Any = part
            adapter.merge()
            owner, _, last = name.rpartition(".")
            setattr(encoder.model.get_submodule(owner), last, adapter.get_base_layer())
    if hasattr(encoder.model, "peft_config"):
        del encoder.model.peft_config
    encoder.requires_grad_(True)
