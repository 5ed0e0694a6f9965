"""What of the encoder does not learn. Frozen weights are in no optimiser; they are saved with the rest."""

from __future__ import annotations

from typing import Literal

from osler.core.errors import RecipeError
from osler.nn.encoder import Encoder
from osler.train.depth import count_layers, depths

Freeze = Literal["nothing", "embeddings", "encoder"] | int


def freeze(encoder: Encoder, what: Freeze) -> int:
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
