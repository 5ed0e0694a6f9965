"""The multi-head model as the training loop calls it: frozen layers, LoRA adapters and the loss."""

from __future__ import annotations

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
from osler.stages.finetune.config import Lora, TaskTeacher
from osler.stages.finetune.mlm_task import NAME, MaskedText
from osler.train.optim import count_layers, depths
from osler.train.source import LossOutput

Freeze = Literal["nothing", "embeddings", "encoder"] | int


def freeze(encoder: PackedEncoder, what: Freeze) -> int:
    """Freeze the embeddings, or these and so many first layers, or everything; how many parameters that are."""
    known = depths(encoder)
    layers = count_layers(known)
    if isinstance(what, int) and not 0 <= what <= layers:
        raise RecipeError(
            f"freeze = {what}, but the encoder has {layers} layers of its own",
            fix=f'Give a number up to {layers}, or "encoder" for all of it',
        )
    frozen = 0
    for name, parameter in encoder.named_parameters():
        if _chosen(known[name], what):
            parameter.requires_grad_(False)
            frozen += parameter.numel()
    return frozen


def _chosen(depth: float, what: Freeze) -> bool:
    if what == "encoder":
        return True
    if what == "nothing":
        return False
    return depth < (0 if what == "embeddings" else what)


def add_adapters(encoder: PackedEncoder, settings: Lora, seed: int) -> int:
    """Put adapters beside the matrices of all numbered layers and freeze all else; how many parameters learn."""
    peft: Any = require("peft", "peft")
    targets = [
        name
        for name, part in encoder.model.named_modules()
        if isinstance(part, nn.Linear) and any(piece.isdigit() for piece in name.split("."))
    ]
    if not targets:
        raise RecipeError("the encoder has no numbered layers to adapt", fix="Leave lora out")
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
    """Add every adapter to the weights beside it and take it away: the encoder is an ordinary one again."""
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
