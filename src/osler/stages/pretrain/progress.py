"""What a person sees while pretraining runs, and the warning about a loss stuck at the unigram entropy."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from osler.core.console import ProgressBar, console, training_status
from osler.core.files import write_json
from osler.core.logs import get_logger
from osler.train.config import TrainConfig
from osler.train.loop import StepReport
from osler.train.precision import choose_device, device_name, matmul_peak

PEAK = "peak.json"


def measured_peak(config: TrainConfig, logs: Path) -> float:
    """FLOP/s of a large matrix product on this run's device, times their number; also kept beside the logs."""
    device = choose_device(config.device, int(os.environ.get("LOCAL_RANK", "0")))
    devices = int(os.environ.get("WORLD_SIZE", "1"))
    peak = matmul_peak(device, threads=config.threads) * devices
    write_json(logs / PEAK, {"device": device_name(device), "devices": devices, "flops_per_second": peak})
    return peak


def shown_on(bar: ProgressBar, peak: float | None) -> Callable[[StepReport], None]:
    """A callback that keeps the bar up to date; where the clock ends the run, the bar counts hundredths of it."""

    def show(report: StepReport) -> None:
        status = training_status(
            report.loss, report.tokens_per_second, report.flops_per_second, peak, report.seconds_left
        )
        if report.steps is None:
            bar.update(completed=round(100 * report.fraction), total=100, status=status)
        else:
            bar.update(completed=report.step, total=report.steps, status=status)

    return show


log = get_logger("osler.pretrain")

ADVICE = "lower train.lr (a third of it), lengthen train.warmup, enlarge the update, or take a modernbert preset"
_NEAR = 0.06  # of the entropy: how near to it counts as being there
_FLAT = 0.01  # a mean loss that fell by less than this part is not falling
_UPDATES = 200  # the stretch of training that is looked at, longer where losses come seldom
_LOSSES = 8  # that a stretch holds at least


def unigram_entropy(parts: Iterable[np.ndarray], size: int, limit: int = 20_000_000) -> float:
    """The loss, in nats, of a model that knows the frequencies of the tokens; estimated from the first `limit` ids."""
    counts = np.zeros(size, dtype=np.int64)
    for part in parts:
        counts += np.bincount(part[: limit - int(counts.sum())], minlength=size)
        if counts.sum() >= limit:
            break
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


class PlateauWatch:
    """Follows the training loss and says once, in the log, that it sits on the unigram plateau."""

    def __init__(self, entropy: float) -> None:
        self.entropy = entropy
        self.found_at: int | None = None
        self._seen: deque[tuple[int, float]] = deque()

    def see(self, step: int, loss: float | None) -> bool:
        """Take in the loss after a step; True when the plateau is noticed now."""
        if loss is None or self.found_at is not None or (self._seen and step <= self._seen[-1][0]):
            return False
        self._seen.append((step, loss))
        while len(self._seen) > _LOSSES and self._seen[-1][0] - self._seen[0][0] > _UPDATES:
            self._seen.popleft()
        if len(self._seen) < _LOSSES or self._seen[-1][0] - self._seen[0][0] < 0.9 * _UPDATES:
            return False
        losses = np.array([value for _, value in self._seen])
        earlier, later = losses[: len(losses) // 2].mean(), losses[len(losses) // 2 :].mean()
        flat = earlier - later < _FLAT * earlier
        if flat and abs(later - self.entropy) < _NEAR * self.entropy:
            self.found_at = step
            figures = {"loss": round(float(later), 3), "unigram": round(self.entropy, 3)}
            log.warning("pretrain.unigram_plateau", step=step, change="train.lr", **figures)
            console().print(f"[yellow]the loss sits at the frequencies of the tokens since some time: {ADVICE}[/]")
            return True
        return False
