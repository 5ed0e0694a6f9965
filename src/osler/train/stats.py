"""Training statistics: running sums, speed, logs, and the choice of the best weights."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from osler.core.errors import RecipeError, alternatives, writing
from osler.core.extras import available
from osler.core.files import write_atomic
from osler.train.checkpoint import module_tensors
from osler.train.parallel import World

_KNOWN_AFTER = 50  # good steps until the usual gradient norm counts as known
_MIN_SHARE = 0.02  # smallest weight of one step in the usual gradient norm
_MAX_RATIO = 10.0  # a norm is capped at this many times the usual one before averaging

_COPIES = 8
"""Copies of the weights that must fit in free GPU memory for the best ones to be kept there."""

Number = int | float | None


@dataclass(frozen=True)
class Reading:
    """Figures of a log window: its mean loss, logged values and tokens, and the skipped steps of the run."""

    loss: float | None
    grad_norm: float
    tokens: int
    skipped: int
    skipped_in_a_row: int
    logs: dict[str, float]


class StepSums:
    """Running sums of a log window, and the number of skipped steps.

    Loss, weight and skips are the same on every rank; tokens and logged values differ by rank until `read`.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        # Per window: loss sum, its weight, gradient norm of the last step.
        # Per run: skipped steps, skipped in a row, the usual gradient norm, good steps.
        self._sums = torch.zeros(7, dtype=torch.float64, device=device)
        self._tokens = 0
        self._logs: dict[str, tuple[torch.Tensor | float, int]] = {}

    def add(self, loss: torch.Tensor, weight: torch.Tensor | float, norm: torch.Tensor, bad: torch.Tensor) -> None:
        """Add one step; a bad one adds nothing to the loss."""
        good = (~bad).to(torch.float64)
        loss_sum, weights, _, skipped, row, usual, count = self._sums.unbind()
        norm = norm.to(torch.float64)
        # A skipped step still moves the usual norm a little, so that a lasting change is eventually accepted.
        seen = torch.where(torch.isfinite(norm), torch.minimum(norm, _MAX_RATIO * usual.clamp(min=1e-30)), usual)
        seen = torch.where(count > 0, seen, norm.nan_to_num(0.0, 0.0, 0.0))
        share = (1 / (count + 1)).clamp(min=_MIN_SHARE)
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
        """Whether a gradient norm is more than `times` the usual one; never in the first steps."""
        usual, count = self._sums[5], self._sums[6]
        return (count >= _KNOWN_AFTER) & (norm > times * usual)

    def note(self, logs: Mapping[str, torch.Tensor | float], tokens: int) -> None:
        """Add one micro-batch of this rank."""
        self._tokens += tokens
        for name, value in logs.items():
            total, count = self._logs.get(name, (0.0, 0))
            number = value.detach().to(torch.float64) if isinstance(value, torch.Tensor) else float(value)
            self._logs[name] = (total + number, count + 1)

    def read(self, world: World) -> Reading:
        """Read the window, summed over all ranks."""
        state = self.state(world)
        loss, weight, norm, skipped, row, *_ = state["sums"]
        logs = {name: total / count for name, (total, count) in sorted(state["logs"].items())}
        return Reading(loss / weight if weight else None, norm, state["tokens"], int(skipped), int(row), logs)

    def skipped_in_a_row(self) -> int:
        """Return the number of skipped steps since the last good one; synchronises with the device."""
        return int(self._sums[4])

    def restart(self) -> None:
        """Begin a new window and keep the values of the run."""
        self._sums = torch.cat([torch.zeros_like(self._sums[:3]), self._sums[3:]])
        self._tokens = 0
        self._logs = {}

    def state(self, world: World) -> dict[str, Any]:
        """Return everything as plain data, summed over all ranks."""
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
        """Load the result of `state`. Only rank 0 loads the sums over all ranks, so they count once."""
        self._sums = torch.tensor(state["sums"], dtype=torch.float64, device=self._device)
        if world.main:
            self._tokens = state["tokens"]
            self._logs = {name: (total, count) for name, (total, count) in state["logs"].items()}


@dataclass(frozen=True)
class Rates:
    """Speed over the last log window, without evaluation and checkpoints."""

    tokens_per_second: float
    flops_per_second: float
    step_seconds: float


class Meter:
    """Measures the time spent on steps between two readings."""

    def __init__(self, flops_per_token: float = 0.0, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._flops_per_token = flops_per_token
        self._clock = clock
        self.start(0)

    def start(self, step: int) -> None:
        """Begin a window at `step`."""
        self._step = step
        self._since = self._clock()
        self._paused = 0.0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the time inside the context."""
        begun = self._clock()
        try:
            yield
        finally:
            self._paused += self._clock() - begun

    def read(self, step: int, tokens: int) -> Rates:
        """Return the speed of the window that ends at `step` and holds `tokens`, and begin the next window."""
        seconds = max(self._clock() - self._since - self._paused, 1e-9)
        each = seconds / max(step - self._step, 1)
        speed = tokens / seconds
        self.start(step)
        return Rates(speed, speed * self._flops_per_token, each)


class Trackers:
    """Logs of one run under `logs/` in its folder. Opening them drops records after `step`."""

    def __init__(self, folder: Path, step: int) -> None:
        logs = folder / "logs"
        self._path = logs / "log.jsonl"
        with writing(logs):
            logs.mkdir(parents=True, exist_ok=True)
            _truncate(self._path, step)
            self._file = open(self._path, "a", encoding="utf-8")  # noqa: SIM115 - closed by close()
            self._board = _tensorboard(logs / "tensorboard", step)

    def record(self, kind: str, step: int, values: Mapping[str, Number], clock: Mapping[str, float]) -> None:
        """Write one record of a kind such as "train" or "eval" at a step."""
        plain = {name: None if value is None or not math.isfinite(value) else value for name, value in values.items()}
        line: dict[str, Any] = {"kind": kind, "step": step, **plain, "clock": dict(clock)}
        with writing(self._path):
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        if self._board is not None:
            for name, value in {**plain, **clock}.items():
                if value is not None:
                    self._board.add_scalar(f"{kind}/{name}", value, step)

    def sync(self) -> None:
        """Flush to disk, because a checkpoint must not be ahead of its log."""
        with writing(self._path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()


def read_history(folder: Path) -> list[dict[str, Any]]:
    """Return the records of a run in order, without wall-clock values."""
    path = folder / "logs" / "log.jsonl"
    if not path.exists():
        return []
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{name: value for name, value in record.items() if name != "clock"} for record in records]


def _truncate(path: Path, step: int) -> None:
    """Drop records of steps that will be repeated, and a truncated last line."""

    def keeps(line: str) -> bool:
        try:
            return line.endswith("\n") and int(json.loads(line)["step"]) <= step
        except (ValueError, KeyError, TypeError):
            return False

    if path.exists():
        before = path.read_text(encoding="utf-8", errors="replace")
        kept = "".join(filter(keeps, before.splitlines(keepends=True)))
        if kept != before:
            write_atomic(path, kept)


def _tensorboard(folder: Path, step: int) -> Any:
    if not available("tensorboard"):
        return None
    from torch.utils.tensorboard import SummaryWriter

    # purge_step hides what an interrupted run wrote beyond the checkpoint.
    return SummaryWriter(str(folder), purge_step=step + 1 if folder.exists() else None)


@dataclass(frozen=True)
class BestOf:
    """Metric that selects the best weights: by highest or lowest value, or always the last ones."""

    metric: str
    mode: Literal["max", "min", "last"] = "max"

    def better(self, value: float, best: float | None, *, ties: bool) -> bool:
        """Whether a value beats the best so far. NaN never does, and an equal one only with `ties`."""
        if self.mode == "last":
            return True
        if math.isnan(value) or best is None:
            return not math.isnan(value)
        return (ties and value == best) or (value > best if self.mode == "max" else value < best)


class Selection:
    """The best evaluation of a run, with its weights in memory."""

    def __init__(self, rule: BestOf | None) -> None:
        self.rule = rule
        self.step: int | None = None
        self.value: float | None = None
        self.stale = 0
        self.weights: Mapping[str, torch.Tensor] | None = None

    def judge(
        self, metrics: Mapping[str, float], step: int, weights: Mapping[str, torch.Tensor], *, ties: bool = False
    ) -> bool:
        """Compare an evaluation with the best so far, and copy its weights if it is better (with `ties`, as good)."""
        if self.rule is None:
            return False
        metric = self.rule.metric
        if metric not in metrics:
            raise RecipeError(f"the evaluation has no metric {metric!r}", fix=alternatives(metric, metrics))
        value = metrics[metric]
        better = self.rule.better(value, self.value, ties=ties)
        if better:
            self.step, self.value, self.stale = step, value, 0
            self.weights = None  # free its memory first
            self.weights = _copied(weights)
        else:
            self.stale += 1
        return better

    def state(self) -> dict[str, Any]:
        return {"step": self.step, "value": self.value, "stale": self.stale}

    def load_state(self, state: Mapping[str, Any], weights: Mapping[str, torch.Tensor] | None) -> None:
        self.step, self.value, self.stale = state["step"], state["value"], state["stale"]
        self.weights = weights


class WeightMean:
    """The mean of the weights after some steps of a run, kept in main memory so that its rounding survives a resume unchanged."""

    def __init__(self, steps: Collection[int]) -> None:
        self.steps = frozenset(steps)
        self.count = 0
        self.weights: Mapping[str, torch.Tensor] | None = None
        self.value: float | None = None
        """Score of the mean, if it was evaluated."""
        self.kept = False

    def add(self, module: nn.Module) -> None:
        """Add the weights after one step. Allocates new tensors, because a checkpoint may still be writing the old ones."""
        self.count += 1
        now = {name: tensor.to("cpu", copy=True) for name, tensor in module_tensors(module).items()}
        for name, before in (self.weights or {}).items():
            if before.is_floating_point():
                now[name] = before.lerp(now[name], 1 / self.count)
        self.weights = now

    def state(self) -> dict[str, Any]:
        return {"count": self.count, "value": self.value, "kept": self.kept}

    def load_state(self, state: Mapping[str, Any], weights: Mapping[str, torch.Tensor] | None) -> None:
        self.count, self.value, self.kept = state["count"], state["value"], state["kept"]
        self.weights = None if weights is None else {name: tensor.clone() for name, tensor in weights.items()}


def _copied(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copy on the GPU if it has plenty of room, which costs no time, else to main memory (a fifth of a second for 500 MB)."""
    size = sum(tensor.nbytes for tensor in tensors.values())
    devices = {tensor.device for tensor in tensors.values() if tensor.is_cuda}
    roomy = bool(devices) and all(torch.cuda.mem_get_info(device)[0] > _COPIES * size for device in devices)
    return {name: tensor.clone() if roomy else tensor.to("cpu", copy=True) for name, tensor in tensors.items()}
