"""Faster layers: layer norms and dropout in compiled training, weights that are rounded once for predictions, products on AMD's CPUs."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

# Constants of a 32-bit hash whose output bits depend on all input bits; the second is 0x846ca68b as a signed number.
_FIRST, _SECOND = 0x7FEB352D, -0x7B935975


class HalfLayerNorm(nn.LayerNorm):
    """A layer norm that stays in autocast's half precision on a GPU, and is a plain one everywhere else."""

    def forward(self, input: Tensor) -> Tensor:
        if not (input.is_cuda and torch.is_autocast_enabled("cuda")):
            return super().forward(input)
        half = torch.get_autocast_dtype("cuda")
        weight = None if self.weight is None else self.weight.to(half)
        bias = None if self.bias is None else self.bias.to(half)
        with torch.autocast("cuda", enabled=False):
            return layer_norm(input.to(half), self.normalized_shape, weight, bias, self.eps)


class HashedDropout(nn.Dropout):
    """Dropout by a hash in compiled code on a GPU, and a plain one everywhere else."""

    def forward(self, input: Tensor) -> Tensor:
        if self.training and self.p and input.is_cuda and torch.compiler.is_compiling():
            return hashed_dropout(input, self.p)
        return super().forward(input)


def use_fast_layers(model: nn.Module) -> None:
    """Replace every plain layer norm and dropout of a model in place; weights and their names stay."""
    for module in model.modules():
        if type(module) is nn.LayerNorm:
            module.__class__ = HalfLayerNorm
        elif type(module) is nn.Dropout:
            module.__class__ = HashedDropout


def cpu_features() -> Mapping[str, object]:
    """Return name and instructions of this CPU; nothing with an older torch."""
    found: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return found


@functools.cache
def use_fast_products() -> None:
    """Compute float32 products with oneDNN on AMD's CPUs: twice as fast there as MKL, which PyTorch uses by default.

    "medium" allows oneDNN to round to bfloat16, but without AMX it computes in float32. Nothing changes with a GPU, or if the
    precision was set before.
    """
    cpu = cpu_features()
    amd = str(cpu.get("cpu_name", "")).startswith("AMD") and not cpu.get("amx_tile")
    if amd and not torch.cuda.is_available() and torch.get_float32_matmul_precision() == "highest":
        torch.set_float32_matmul_precision("medium")
        if not _products_are_exact():
            torch.set_float32_matmul_precision("highest")


def _products_are_exact() -> bool:
    """Whether float32 products have the precision of float32."""
    drawn = torch.Generator().manual_seed(0)
    left, right = torch.randn(64, 256, generator=drawn), torch.randn(256, 64, generator=drawn)
    return torch.allclose((left @ right).double(), left.double() @ right.double(), rtol=0.0, atol=1e-3)


def round_weights(model: nn.Module) -> None:
    """Store the weights of linear layers in bfloat16, as autocast rounds them in every pass. Only for inference.

    Embeddings, norms and rotary angles stay in float32: autocast decides about them layer by layer.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.to(torch.bfloat16)


def hashed_dropout(input: Tensor, share: float) -> Tensor:
    """Zero about a `share` of the elements, chosen by a hash of their position and a number from torch's generator."""
    seed = torch.randint(-(2**31), 2**31 - 1, (1,), dtype=torch.int32, device=input.device)
    place = torch.arange(input.numel(), dtype=torch.int32, device=input.device).view(input.shape)
    kept = _hash(place ^ _hash(seed)) >= int(share * 2**31)
    return torch.where(kept, input * (1.0 / (1.0 - share)), 0.0)


def _hash(number: Tensor) -> Tensor:
    """Return 31 well-mixed bits of a 32-bit number. The masks remove the ones that shifting a negative number brings in."""
    number = (number ^ ((number >> 16) & 0xFFFF)) * _FIRST
    number = (number ^ ((number >> 15) & 0x1FFFF)) * _SECOND
    return (number ^ ((number >> 16) & 0xFFFF)) & 0x7FFFFFFF
