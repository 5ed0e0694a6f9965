"""Optimisers and their parameter groups.

Weight decay acts on matrices; biases, norms and other vectors are spared unless the recipe says otherwise. Every
trainable parameter is in exactly one group: a head left out would never learn, and nothing else would tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from osler.core.errors import ArtifactError

if TYPE_CHECKING:
    from osler.train.config import TrainConfig

Builder = Callable[[Iterable[dict[str, Any]], "TrainConfig"], torch.optim.Optimizer]


def _adamw(groups: Iterable[dict[str, Any]], config: TrainConfig) -> torch.optim.Optimizer:
    return torch.optim.AdamW(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=True)


def _adam(groups: Iterable[dict[str, Any]], config: TrainConfig) -> torch.optim.Optimizer:
    return torch.optim.Adam(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=True)


def _adamax(groups: Iterable[dict[str, Any]], config: TrainConfig) -> torch.optim.Optimizer:
    return torch.optim.Adamax(groups, lr=config.lr, betas=config.betas, eps=config.eps)


OPTIMISERS: dict[str, Builder] = {"adamw": _adamw, "adam": _adam, "adamax": _adamax}


@dataclass(frozen=True)
class Group:
    """Parameters that share a weight decay and a learning-rate scale, by name."""

    names: tuple[str, ...]
    weight_decay: float
    lr_scale: float


def parameter_groups(module: nn.Module, config: TrainConfig) -> list[Group]:
    """Sort every trainable parameter into one group; tied parameters count once, under their first name."""
    members: dict[tuple[float, float], list[str]] = {}
    trainable = [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]
    for name, parameter in trainable:
        decays = parameter.ndim >= 2 or config.decay_vectors
        scale = config.head_lr if "heads" in name.split(".") else 1.0
        members.setdefault((config.weight_decay if decays else 0.0, scale), []).append(name)
    groups = [Group(tuple(names), decay, scale) for (decay, scale), names in members.items()]
    assert sorted(name for group in groups for name in group.names) == sorted(name for name, _ in trainable)
    return groups


class Optimiser:
    """A torch optimiser whose state is saved and loaded by parameter name, and which can leave out a bad step."""

    def __init__(self, module: nn.Module, config: TrainConfig) -> None:
        parameters = dict(module.named_parameters())
        self.groups = parameter_groups(module, config)
        self._lr = config.lr
        self._names = [name for group in self.groups for name in group.names]
        self.parameters = [parameters[name] for name in self._names]
        settings = [
            {"params": [parameters[name] for name in group.names], "weight_decay": group.weight_decay}
            for group in self.groups
        ]
        self._inner = OPTIMISERS[config.optimizer](settings, config)

    def set_rate(self, factor: float) -> None:
        """Set every group's learning rate to its part of the peak times `factor`."""
        for group, settings in zip(self.groups, self._inner.param_groups, strict=True):
            settings["lr"] = self._lr * group.lr_scale * factor

    def step(self, bad: torch.Tensor) -> None:
        """Update the parameters unless `bad` is true; a fused optimiser decides that on the device, without a wait."""
        if self._inner.defaults.get("fused"):
            # The contract torch.amp.GradScaler uses to make fused optimisers skip a step.
            self._inner.found_inf = bad.to(torch.float32)  # type: ignore[attr-defined]
            self._inner.step()
        elif not bool(bad):
            self._inner.step()

    def zero_grad(self) -> None:
        """Drop all gradients, so that parameters a step does not touch are not moved by it."""
        self._inner.zero_grad(set_to_none=True)

    def state(self) -> dict[str, torch.Tensor]:
        """Every state tensor, keyed `kind/parameter name`."""
        return {
            f"{kind}/{self._names[index]}": value
            for index, entries in self._inner.state_dict()["state"].items()
            for kind, value in entries.items()
        }

    def load_state(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take back what `state` gave, whatever device or number of processes wrote it."""
        places = {name: index for index, name in enumerate(self._names)}
        state: dict[int, dict[str, torch.Tensor]] = {}
        for key, value in tensors.items():
            kind, _, name = key.partition("/")
            if name not in places:
                raise ArtifactError("the optimiser state of a checkpoint names a parameter this model does not train")
            # A copy: memory-mapped tensors are aligned differently, which can change how kernels round.
            state.setdefault(places[name], {})[kind] = value.clone()
        self._inner.load_state_dict({"state": state, "param_groups": self._inner.state_dict()["param_groups"]})
