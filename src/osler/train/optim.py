"""Optimisers, parameter groups and layer-wise learning rates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from osler.core.errors import ArtifactError

if TYPE_CHECKING:
    from osler.train.config import TrainConfig

EMBEDDINGS = -1
"""Depth of the embeddings, below layer 0."""

BEHIND = math.inf
"""Depth of parameters after the last layer."""


class Optimiser:
    """Torch optimisers with their state keyed by parameter name, and the ability to skip a bad step."""

    def __init__(self, module: nn.Module, config: TrainConfig) -> None:
        parameters = dict(module.named_parameters())
        groups = parameter_groups(module, config)
        self.parameters = [parameters[name] for group in groups for name in group.names]
        self._lr = config.lr
        self._inners: list[tuple[torch.optim.Optimizer, list[ParameterGroup]]] = []
        for kind in dict.fromkeys(group.optimizer for group in groups):
            own = [group for group in groups if group.optimizer == kind]
            settings = [
                {"params": [parameters[name] for name in group.names], "weight_decay": group.weight_decay}
                for group in own
            ]
            optimizer: torch.optim.Optimizer
            if kind == "muon":
                optimizer = Muon(settings, lr=config.lr)
            elif kind == "adamax":
                optimizer = _Adamax(settings, lr=config.lr, betas=config.betas, eps=config.eps)
            elif kind == "lamb":
                optimizer = Lamb(settings, lr=config.lr, betas=config.betas, eps=config.eps)
            else:
                optimizer = torch.optim.AdamW(settings, lr=config.lr, betas=config.betas, eps=config.eps, fused=True)
            self._inners.append((optimizer, own))

    def set_lr(self, factor: float) -> None:
        """Set the learning rate of every group to its share of the peak times `factor`."""
        for optimizer, groups in self._inners:
            for group, settings in zip(groups, optimizer.param_groups, strict=True):
                settings["lr"] = self._lr * group.lr_scale * factor

    def step(self, bad: torch.Tensor) -> None:
        """Update the parameters unless `bad` is true. Most optimisers check it on the device, without synchronising."""
        for optimizer, _ in self._inners:
            if not isinstance(optimizer, _Adamax | Lamb):
                # torch.amp.GradScaler uses this attribute too, to make fused optimisers skip a step on the device.
                optimizer.found_inf = bad.to(torch.float32)  # type: ignore[attr-defined]
                optimizer.step()
            elif not bool(bad):
                optimizer.step()

    def zero_grad(self) -> None:
        """Set all gradients to None, so a step leaves parameters without a gradient alone."""
        for optimizer, _ in self._inners:
            optimizer.zero_grad(set_to_none=True)

    def state(self) -> dict[str, torch.Tensor]:
        """Return every state tensor, keyed by `kind/parameter name`."""
        found = {}
        for optimizer, groups in self._inners:
            names = [name for group in groups for name in group.names]
            for index, entries in optimizer.state_dict()["state"].items():
                found.update({f"{kind}/{names[index]}": value for kind, value in entries.items()})
        return found

    def load_state(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Load the result of `state`, from any device and number of processes."""
        left = dict(tensors)
        for optimizer, groups in self._inners:
            places = {name: index for index, name in enumerate(name for group in groups for name in group.names)}
            state: dict[int, dict[str, torch.Tensor]] = {}
            for key in list(left):
                kind, _, name = key.partition("/")
                if name in places:
                    # Copy: memory-mapped tensors are aligned differently, which can change how kernels round.
                    state.setdefault(places[name], {})[kind] = left.pop(key).clone()
            settings = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": state, "param_groups": settings})
        if left:
            raise ArtifactError("the checkpoint has optimiser state for a parameter that this model does not train")


@dataclass(frozen=True)
class ParameterGroup:
    """Names of parameters that share weight decay, learning-rate scale and optimiser."""

    names: tuple[str, ...]
    weight_decay: float
    lr_scale: float
    optimizer: str


def parameter_groups(module: nn.Module, config: TrainConfig) -> list[ParameterGroup]:
    """Assign every trainable parameter to one group; tied parameters count once, under their first name."""
    members: dict[tuple[float, float, str], list[str]] = {}
    known = depths(module)
    top = count_layers(known) - 1
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            continue
        path = name.split(".")
        weight_decay = config.weight_decay if parameter.ndim >= 2 or config.decay_vectors else 0.0
        if "heads" in path:
            scale = config.head_lr
        else:
            scale = 1.0 if known[name] == BEHIND else config.layer_decay ** (top - known[name])
        matrix = parameter.ndim == 2 and "heads" not in path and any(map(str.isdigit, path))
        kind = "adamw" if config.optimizer == "muon" and not matrix else config.optimizer
        members.setdefault((weight_decay, scale, kind), []).append(name)
    return [ParameterGroup(tuple(names), *shared) for shared, names in members.items()]


def depths(module: nn.Module) -> dict[str, float]:
    """Return the layer of every parameter by name. Heads (under `heads`) and others without a layer are behind the last one."""
    tables = {name for name, part in module.named_modules() if isinstance(part, nn.Embedding)}
    found: dict[str, float] = {}
    for name, _ in module.named_parameters():
        path = name.split(".")
        number = next((int(part) for part in path if part.isdigit()), None)
        if "heads" in path:
            found[name] = BEHIND
        elif number is not None:
            found[name] = number
        else:
            embedding = any(part.startswith("embedding") or part.endswith("embeddings") for part in path)
            found[name] = EMBEDDINGS if embedding or name.rpartition(".")[0] in tables else BEHIND
    return found


def count_layers(known: Mapping[str, float]) -> int:
    """Return the number of layers in the depths of parameters."""
    return int(max((depth for depth in known.values() if depth != BEHIND), default=EMBEDDINGS)) + 1


class _Adamax(torch.optim.Adamax):
    """Adamax with decoupled weight decay, which torch has only for Adam."""

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


class Lamb(torch.optim.Optimizer):
    """LAMB: Adam with the step scaled to the norm of each weight (You et al. 2020), for batches of tens of thousands of sequences.

    Parameters without weight decay, usually biases and norms, are not scaled, as in the implementation used to train BERT.
    """

    def __init__(self, params: Iterable[Any], lr: float, betas: tuple[float, float], eps: float) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, parameter.grad, group)

    def _move(self, parameter: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any]) -> None:
        state, (beta1, beta2) = self.state[parameter], group["betas"]
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        state["step"] += 1
        count = float(state["step"])
        mean = state["exp_avg"].lerp_(gradient, 1 - beta1)
        square = state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        denominator = (square / (1 - beta2**count)).sqrt_().add_(group["eps"])
        update = (mean / (1 - beta1**count)).div_(denominator)
        if group["weight_decay"]:
            update.add_(parameter, alpha=group["weight_decay"])
            size, length = parameter.norm(), update.norm()
            update.mul_(torch.where((size > 0) & (length > 0), size / length, 1.0))
        parameter.sub_(update, alpha=group["lr"])


class Muon(torch.optim.Optimizer):
    """Orthogonalised Nesterov momentum, with decoupled weight decay as in AdamW."""

    def __init__(self, params: Iterable[Any], lr: float, momentum: float = 0.95, weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    found_inf: torch.Tensor | None = None
    """If set above 0 before `step`, the step changes nothing, as in torch's fused optimisers."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: dict[tuple[torch.Size, torch.device], list[torch.Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape.setdefault((parameter.shape, parameter.device), []).append(parameter)
            for parameters in by_shape.values():
                self._move(parameters, group)

    def _move(self, parameters: list[torch.Tensor], group: dict[str, Any]) -> None:
        """Update all matrices of one shape in one batch."""
        for parameter in parameters:
            if not self.state[parameter]:
                self.state[parameter]["momentum"] = torch.zeros_like(parameter)
        buffers = [self.state[parameter]["momentum"] for parameter in parameters]
        gradients = torch.stack([parameter.grad for parameter in parameters])  # type: ignore[misc]
        before = torch.stack(buffers)
        after = before.lerp(gradients, 1 - group["momentum"])
        direction = orthogonal(gradients.lerp(after, group["momentum"]))
        # An r x c matrix with orthonormal rows or columns has entries of about 1/sqrt(max(r, c)); AdamW's updates are about 0.2.
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
    """Bring the singular values of matrices [n, r, c] close to 1 with a quintic Newton-Schulz iteration."""
    a, b, c = 3.4445, -4.7750, 2.0315
    work = matrices.bfloat16() if matrices.is_cuda else matrices.float()
    tall = work.shape[-2] > work.shape[-1]
    if tall:
        work = work.mT
    work = work / work.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(5):
        gram = work @ work.mT
        work = torch.baddbmm(work, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), work, beta=a)
    return work.mT if tall else work
