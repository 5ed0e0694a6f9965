"""Running sums between two log lines, kept on the device so that counting never makes the host wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from osler.train.distributed import World

_KNOWN_AFTER = 50  # good steps before the usual gradient norm is known
_MEMORY = 0.02  # what a step counts in it
_BELIEVED = 10.0  # a norm counts at most so many times the usual


@dataclass(frozen=True)
class Reading:
    """The sums as numbers: mean loss and logged values of the window, tokens in it, skipped steps of the run."""

    loss: float | None
    grad_norm: float
    tokens: int
    skipped: int
    skipped_in_a_row: int
    logs: dict[str, float]


class Tally:
    """Sums of a log window, and the count of skipped steps.

    Loss, weight and skips are the same on every rank; tokens and logged values are each rank's own until they are read.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        # loss sum, its weight, gradient norm of the last step; then what outlives a window:
        # skipped in the run, skipped in a row, the usual gradient norm, good steps
        self._sums = torch.zeros(7, dtype=torch.float64, device=device)
        self._tokens = 0
        self._logs: dict[str, tuple[torch.Tensor | float, int]] = {}

    def add(self, loss: torch.Tensor, weight: torch.Tensor | float, norm: torch.Tensor, bad: torch.Tensor) -> None:
        """Count one step; a bad one adds nothing to the loss."""
        good = (~bad).to(torch.float64)
        loss_sum, weights, _, skipped, row, usual, count = self._sums.unbind()
        norm = norm.to(torch.float64)
        # A skipped step still pulls the usual norm a little towards its own, so that a lasting change is believed in the end.
        seen = torch.where(torch.isfinite(norm), torch.minimum(norm, _BELIEVED * usual.clamp(min=1e-30)), usual)
        seen = torch.where(count > 0, seen, norm.nan_to_num(0.0, 0.0, 0.0))
        share = (1 / (count + 1)).clamp(min=_MEMORY)
        self._sums = torch.stack(
            [
                loss_sum + torch.where(bad, 0.0, loss),
                weights + good * weight,
                norm,
                skipped + (1 - good),
                (row + 1) * (1 - good),
                usual + share * (seen - usual),
                count + good,
            ]
        )

    def spike(self, norm: torch.Tensor, times: float) -> torch.Tensor:
        """Whether a gradient norm is more than `times` the usual, which is known after some steps."""
        usual, count = self._sums[5], self._sums[6]
        return (count >= _KNOWN_AFTER) & (norm > times * usual)

    def note(self, logs: Mapping[str, torch.Tensor | float], tokens: int) -> None:
        """Count one micro-batch of this rank."""
        self._tokens += tokens
        for name, value in logs.items():
            total, count = self._logs.get(name, (0.0, 0))
            number = value.detach().to(torch.float64) if isinstance(value, torch.Tensor) else float(value)
            self._logs[name] = (total + number, count + 1)

    def read(self, world: World) -> Reading:
        """The sums so far, over all ranks."""
        state = self.state(world)
        loss, weight, norm, skipped, row, *_ = state["sums"]
        logs = {name: total / count for name, (total, count) in sorted(state["logs"].items())}
        return Reading(loss / weight if weight else None, norm, state["tokens"], int(skipped), int(row), logs)

    def skipped_in_a_row(self) -> int:
        """Skipped steps up to now without a good one between; waits for the device."""
        return int(self._sums[4])

    def restart(self) -> None:
        """Begin a new window; the skips stay counted."""
        self._sums = torch.cat([torch.zeros_like(self._sums[:3]), self._sums[3:]])
        self._tokens = 0
        self._logs = {}

    def state(self, world: World) -> dict[str, Any]:
        """Everything as plain data, added up over all ranks."""
        mine = self._tokens, {name: (float(total), count) for name, (total, count) in self._logs.items()}
        tokens = 0
        logs: dict[str, tuple[float, int]] = {}
        for their_tokens, their_logs in world.gather(mine):
            tokens += their_tokens
            for name, (total, count) in their_logs.items():
                before, times = logs.get(name, (0.0, 0))
                logs[name] = (before + total, times + count)
        return {"sums": self._sums.tolist(), "tokens": tokens, "logs": logs}

    def load_state(self, state: Mapping[str, Any], world: World) -> None:
        """Take back what `state` gave; rank 0 alone takes what is each rank's own, so that it counts once."""
        self._sums = torch.tensor(state["sums"], dtype=torch.float64, device=self._device)
        if world.main:
            self._tokens = state["tokens"]
            self._logs = {name: (total, count) for name, (total, count) in state["logs"].items()}
