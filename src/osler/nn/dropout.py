"""Dropout at the price of a few integer operations, for compiled training on a GPU.

torch.compile draws every element from ten rounds of Philox and uses one of the four numbers that gives: for RoBERTa-base
on an H200 the kernels with a dropout took four times what their memory traffic takes. Here an element is kept by a hash of
its place and of a number drawn once a call from torch's generator, so runs repeat as before; the mask is not stored but
hashed again in the backward pass.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

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
