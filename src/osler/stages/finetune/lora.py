"""Low-rank adapters (LoRA) through `peft`: beside every matrix of the encoder's layers a narrow product learns, the rest is frozen.

Adapters live inside the encoder while it trains, checkpoints included, and are added to the weights before the bundle is saved, so that
a bundle is the same kind of folder however it was taught.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from osler.core.errors import RecipeError
from osler.core.extras import require
from osler.nn.encoder import Encoder
from osler.nn.initial import seeded
from osler.stages.finetune.config import Lora


def add_adapters(encoder: Encoder, settings: Lora, seed: int) -> int:
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


def merge_adapters(encoder: Encoder) -> None:
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
