"""Keeping the best: which evaluation was best so far, its weights, and how long ago it was."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from osler.core.errors import RecipeError, nearest
from osler.train.checkpoint import load_module, module_tensors

_ROOM = 8
"""How many copies must fit beside what is there for one to stay on the GPU."""


@dataclass(frozen=True)
class BestOf:
    """Which metric of the evaluation decides, and whether more or less of it is better."""

    metric: str
    mode: Literal["max", "min"] = "max"

    def value(self, metrics: Mapping[str, float]) -> float:
        """The deciding metric of an evaluation."""
        if self.metric not in metrics:
            close = nearest(self.metric, metrics) or ", ".join(metrics)
            raise RecipeError(f"the evaluation gives no {self.metric!r} to choose the best by", fix=f"Use {close}")
        return metrics[self.metric]

    def better(self, value: float, than: float | None) -> bool:
        """Whether `value` beats the best so far; not-a-number never does, and an equal value keeps the earlier one."""
        if math.isnan(value):
            return False
        return than is None or (value > than if self.mode == "max" else value < than)


class Selection:
    """The best evaluation of a run; its weights wait in memory until a checkpoint or the end."""

    def __init__(self, rule: BestOf | None) -> None:
        self._rule = rule
        self.step: int | None = None
        self.value: float | None = None
        self.stale = 0
        self.weights: Mapping[str, torch.Tensor] | None = None

    def judge(self, metrics: Mapping[str, float], step: int, module: nn.Module) -> None:
        """Take an evaluation into account, with a copy of the weights if it is the best so far."""
        if self._rule is None:
            return
        value = self._rule.value(metrics)
        if self._rule.better(value, self.value):
            self.step, self.value, self.stale = step, value, 0
            self.weights = None  # makes room for the next
            self.weights = _copied(module_tensors(module))
        else:
            self.stale += 1

    def restore_best(self, module: nn.Module) -> None:
        """Put the best weights into the module, if there are any."""
        if self.weights is not None:
            load_module(module, self.weights)

    def state(self) -> dict[str, Any]:
        """All but the weights, as plain data."""
        return {"step": self.step, "value": self.value, "stale": self.stale}

    def load_state(self, state: Mapping[str, Any], weights: Mapping[str, torch.Tensor] | None) -> None:
        """Take back what `state` gave, and the weights."""
        self.step, self.value, self.stale = state["step"], state["value"], state["stale"]
        self.weights = weights


def _copied(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A copy on the GPU where it has room in plenty, which costs nothing, else in main memory (a fifth of a second for 500 MB)."""
    size = sum(tensor.nbytes for tensor in tensors.values())
    devices = {tensor.device for tensor in tensors.values() if tensor.is_cuda}
    roomy = bool(devices) and all(torch.cuda.mem_get_info(device)[0] > _ROOM * size for device in devices)
    return {name: tensor.clone() if roomy else tensor.to("cpu", copy=True) for name, tensor in tensors.items()}
