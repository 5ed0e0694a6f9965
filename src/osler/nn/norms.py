"""Layer norms that keep the residual stream in half precision.

Autocast computes a layer norm in float32 and hands on float32, so that every residual sum and all that is kept for the
backward pass costs twice the memory traffic. The norm's own statistics are in float32 either way, inside the kernel; only
what it hands on is rounded, as the layers around it do.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm


class HalfLayerNorm(nn.LayerNorm):
    """A layer norm that hands on autocast's half precision on a GPU, and is a plain one everywhere else."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalise the last dimensions."""
        if not (input.is_cuda and torch.is_autocast_enabled("cuda")):
            return super().forward(input)
        half = torch.get_autocast_dtype("cuda")
        weight = None if self.weight is None else self.weight.to(half)
        bias = None if self.bias is None else self.bias.to(half)
        with torch.autocast("cuda", enabled=False):
            return layer_norm(input.to(half), self.normalized_shape, weight, bias, self.eps)


def half_norms(model: nn.Module) -> None:
    """Make every plain layer norm of a model such a one, in place; its weights and their names stay."""
    for module in model.modules():
        if type(module) is nn.LayerNorm:
            module.__class__ = HalfLayerNorm
