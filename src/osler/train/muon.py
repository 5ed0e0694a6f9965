"""Muon: momentum whose update for a matrix is made orthogonal, for the matrices of an encoder's layers.

Why not `torch.optim.Muon`: it takes one matrix after the other (hundreds of small kernels a step for a base model) and
cannot leave out a bad step without the host waiting for the device. Here matrices of one shape are stacked and made
orthogonal together, and a bad step is left out on the device. The update is scaled as by `match_rms_adamw` there, so that a
learning rate of AdamW's size fits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ROUNDS = 5


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised; weight decay apart from it as in AdamW."""

    def __init__(self, params: Iterable[Any], lr: float, momentum: float = 0.95, weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    found_inf: torch.Tensor | None = None
    """Set before `step`: more than 0 leaves everything as it was, the contract of torch's fused optimisers."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update all matrices that have a gradient."""
        for group in self.param_groups:
            by_shape: dict[tuple[torch.Size, torch.device], list[torch.Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape.setdefault((parameter.shape, parameter.device), []).append(parameter)
            for parameters in by_shape.values():
                self._update(parameters, group)

    def _update(self, parameters: list[torch.Tensor], group: dict[str, Any]) -> None:
        for parameter in parameters:
            if not self.state[parameter]:
                self.state[parameter]["momentum"] = torch.zeros_like(parameter)
        buffers = [self.state[parameter]["momentum"] for parameter in parameters]
        gradients = torch.stack([parameter.grad for parameter in parameters])  # type: ignore[misc]
        before = torch.stack(buffers)
        after = before.lerp(gradients, 1 - group["momentum"])
        direction = orthogonal(gradients.lerp(after, group["momentum"]))
        # A matrix of r x c with orthonormal rows or columns has entries of about 1/sqrt(max(r, c)); AdamW's are about 0.2.
        step = group["lr"] * 0.2 * math.sqrt(max(parameters[0].shape))
        kept = 1 - group["lr"] * group["weight_decay"]
        weights = torch.stack(parameters)
        moved = weights * kept - step * direction.to(weights.dtype)
        if self.found_inf is not None:
            bad = self.found_inf > 0
            after, moved = torch.where(bad, before, after), torch.where(bad, weights, moved)
        torch._foreach_copy_(buffers, list(after.unbind()))
        torch._foreach_copy_(parameters, list(moved.unbind()))


def orthogonal(matrices: torch.Tensor) -> torch.Tensor:
    """Matrices [n, r, c] with singular values near 1 and the same singular vectors: a quintic Newton-Schulz iteration."""
    a, b, c = _COEFFICIENTS
    work = matrices.bfloat16() if matrices.is_cuda else matrices.float()
    tall = work.shape[-2] > work.shape[-1]
    if tall:
        work = work.mT
    work = work / work.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(_ROUNDS):
        gram = work @ work.mT
        work = torch.baddbmm(work, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), work, beta=a)
    return work.mT if tall else work
