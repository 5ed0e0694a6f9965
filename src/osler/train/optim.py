"""Optimisers, parameter groups and layer-wise learning rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from osler.core.errors import ArtifactError

if TYPE_CHECKING:
    from osler.train.config import TrainConfig

EMBEDDINGS = -1
"""The depth of the embeddings: below layer 0."""

BEHIND = math.inf
"""The depth of what stands behind the last layer."""


def depths(module: nn.Module) -> dict[str, float]:
    """The layer of every parameter by name; heads (below `heads`) and other things without a layer are behind all of them."""
    tables = {name for name, part in module.named_modules() if isinstance(part, nn.Embedding)}
    return {name: _depth(name, tables) for name, _ in module.named_parameters()}


def count_layers(known: Mapping[str, float]) -> int:
    """How many numbered layers there are."""
    return int(max((depth for depth in known.values() if depth != BEHIND), default=EMBEDDINGS)) + 1


def _depth(name: str, tables: set[str]) -> float:
    path = name.split(".")
    if "heads" in path:
        return BEHIND
    number = next((int(part) for part in path if part.isdigit()), None)
    if number is not None:
        return number
    named = any(part.startswith("embedding") or part.endswith("embeddings") for part in path)
    return EMBEDDINGS if named or name.rpartition(".")[0] in tables else BEHIND


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


Builder = Callable[[Iterable[dict[str, Any]], "TrainConfig"], torch.optim.Optimizer]


def _adamw(groups: Iterable[dict[str, Any]], config: TrainConfig) -> torch.optim.Optimizer:
    return torch.optim.AdamW(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=True)


class _Adamax(torch.optim.Adamax):
    """Torch's, with the decay apart from the gradient, which torch offers for Adam alone."""

    def __init__(self, groups: Iterable[dict[str, Any]], **settings: Any) -> None:
        super().__init__(
            [{**group, "decay": group["weight_decay"], "weight_decay": 0.0} for group in groups], **settings
        )

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            moved = [parameter for parameter in group["params"] if parameter.grad is not None]
            if moved and group["decay"]:
                torch._foreach_mul_(moved, 1 - group["lr"] * group["decay"])
        return super().step(closure)


def _adamax(groups: Iterable[dict[str, Any]], config: TrainConfig) -> torch.optim.Optimizer:
    return _Adamax(groups, lr=config.lr, betas=config.betas, eps=config.eps)


def _muon(groups: Iterable[dict[str, Any]], config: TrainConfig) -> torch.optim.Optimizer:
    return Muon(groups, lr=config.lr)


OPTIMISERS: dict[str, Builder] = {"adamw": _adamw, "adam": _adamw, "adamax": _adamax, "muon": _muon}

# Those that take `found_inf`, by which torch.amp.GradScaler makes fused optimisers leave out a step on the device.
_SKIP_ON_DEVICE = ("adamw", "adam", "muon")


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that share a weight decay, a learning-rate scale and an optimiser, by name."""

    names: tuple[str, ...]
    weight_decay: float
    lr_scale: float
    optimizer: str


def parameter_groups(module: nn.Module, config: TrainConfig) -> list[ParameterGroup]:
    """Sort every trainable parameter into one group; tied parameters count once, under their first name."""
    members: dict[tuple[float, float, str], list[str]] = {}
    rates = _layer_rates(module, config.layer_decay)
    trainable = [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]
    for name, parameter in trainable:
        path = name.split(".")
        decay = config.weight_decay if parameter.ndim >= 2 or config.decay_vectors else 0.0
        scale = config.head_lr if "heads" in path else rates[name]
        kind: str = config.optimizer
        if kind == "muon":
            if parameter.ndim == 2 and "heads" not in path and any(map(str.isdigit, path)):
                scale *= config.matrix_lr
            else:
                kind = "adamw"
        members.setdefault((decay, scale, kind), []).append(name)
    groups = [ParameterGroup(tuple(names), *shared) for shared, names in members.items()]
    assert sorted(name for group in groups for name in group.names) == sorted(name for name, _ in trainable)
    return groups


def _layer_rates(module: nn.Module, decay: float) -> dict[str, float]:
    """The part of the learning rate each parameter has by its depth: all of it in the last layer, least in the embeddings."""
    known = depths(module)
    last = count_layers(known) - 1
    return {name: 1.0 if depth == BEHIND else decay ** (last - depth) for name, depth in known.items()}


class Optimiser:
    """Torch optimisers whose state is saved and loaded by parameter name, and which can leave out a bad step."""

    def __init__(self, module: nn.Module, config: TrainConfig) -> None:
        parameters = dict(module.named_parameters())
        self.groups = parameter_groups(module, config)
        self.parameters = [parameters[name] for group in self.groups for name in group.names]
        self._lr = config.lr
        kinds = dict.fromkeys(group.optimizer for group in self.groups)
        self._inners = [
            _Inner(kind, [group for group in self.groups if group.optimizer == kind], parameters, config)
            for kind in kinds
        ]

    def set_rate(self, factor: float) -> None:
        """Set every group's learning rate to its part of the peak times `factor`."""
        for inner in self._inners:
            for group, settings in zip(inner.groups, inner.optimizer.param_groups, strict=True):
                settings["lr"] = self._lr * group.lr_scale * factor

    def rates(self) -> dict[str, float]:
        """The learning rate of every parameter, by name."""
        return {
            name: settings["lr"]
            for inner in self._inners
            for group, settings in zip(inner.groups, inner.optimizer.param_groups, strict=True)
            for name in group.names
        }

    def step(self, bad: torch.Tensor) -> None:
        """Update the parameters unless `bad` is true; most optimisers decide that on the device, without a wait."""
        for inner in self._inners:
            if inner.kind in _SKIP_ON_DEVICE:
                inner.optimizer.found_inf = bad.to(torch.float32)  # type: ignore[attr-defined]
                inner.optimizer.step()
            elif not bool(bad):
                inner.optimizer.step()

    def zero_grad(self) -> None:
        """Drop all gradients, so that parameters a step does not touch are not moved by it."""
        for inner in self._inners:
            inner.optimizer.zero_grad(set_to_none=True)

    def state(self) -> dict[str, torch.Tensor]:
        """Every state tensor, keyed `kind/parameter name`."""
        return {
            f"{kind}/{inner.names[index]}": value
            for inner in self._inners
            for index, entries in inner.optimizer.state_dict()["state"].items()
            for kind, value in entries.items()
        }

    def load_state(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take back what `state` gave, whatever device or number of processes wrote it."""
        left = dict(tensors)
        for inner in self._inners:
            places = {name: index for index, name in enumerate(inner.names)}
            state: dict[int, dict[str, torch.Tensor]] = {}
            for key in list(left):
                kind, _, name = key.partition("/")
                if name in places:
                    # A copy: memory-mapped tensors are aligned differently, which can change how kernels round.
                    state.setdefault(places[name], {})[kind] = left.pop(key).clone()
            settings = inner.optimizer.state_dict()["param_groups"]
            inner.optimizer.load_state_dict({"state": state, "param_groups": settings})
        if left:
            raise ArtifactError("the optimiser state of a checkpoint names a parameter this model does not train")


class _Inner:
    """One torch optimiser with its groups, and the names of its parameters in its own order."""

    def __init__(
        self, kind: str, groups: list[ParameterGroup], parameters: Mapping[str, nn.Parameter], config: TrainConfig
    ) -> None:
        self.kind = kind
        self.groups = groups
        self.names = [name for group in groups for name in group.names]
        settings = [
            {"params": [parameters[name] for name in group.names], "weight_decay": group.weight_decay}
            for group in groups
        ]
        self.optimizer = OPTIMISERS[kind](settings, config)
