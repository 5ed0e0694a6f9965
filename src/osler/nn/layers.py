"""Faster layers for compiled half-precision training: layer norms and hashed dropout."""

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


_FIRST, _SECOND = (
    0x7FEB352D,
    -0x7B935975,
)  # of a 32-bit hash whose bits each depend on all bits put in (0x846ca68b, signed)


class HashedDropout(nn.Dropout):
    """Dropout that hashes inside compiled code on a GPU, and is the plain one everywhere else."""

    def forward(self, input: Tensor) -> Tensor:
        """Zero a share of the elements and scale the others up."""
        if self.training and self.p and input.is_cuda and torch.compiler.is_compiling():
            return hashed_dropout(input, self.p)
        return super().forward(input)


def hashed_dropout(input: Tensor, share: float) -> Tensor:
    """Zero about a `share` of the elements, chosen by a hash of their place and a number from torch's generator."""
    seed = torch.randint(-(2**31), 2**31 - 1, (1,), dtype=torch.int32, device=input.device)
    place = torch.arange(input.numel(), dtype=torch.int32, device=input.device).view(input.shape)
    kept = _hash(place ^ _hash(seed)) >= int(share * 2**31)
    return torch.where(kept, input * (1.0 / (1.0 - share)), 0.0)


def _hash(number: Tensor) -> Tensor:
    """31 well-mixed bits of a 32-bit number; shifts of negative numbers bring in ones, which the masks take out."""
    number = (number ^ ((number >> 16) & 0xFFFF)) * _FIRST
    number = (number ^ ((number >> 15) & 0x1FFFF)) * _SECOND
    return (number ^ ((number >> 16) & 0xFFFF)) & 0x7FFFFFFF


def hash_dropout(model: nn.Module) -> None:
    """Make every plain dropout of a model such a one, in place."""
    for module in model.modules():
        if type(module) is nn.Dropout:
            module.__class__ = HashedDropout
