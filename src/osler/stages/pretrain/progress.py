"""The progress bar of pretraining, and the warning about a loss stuck at the unigram entropy."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable

import numpy as np

from osler.artifacts.encoder import DevicePeak
from osler.core.console import ProgressBar, training_status
from osler.core.logs import get_logger
from osler.train.config import TrainConfig
from osler.train.loop import StepReport
from osler.train.precision import choose_device, device_name, matmul_peak

log = get_logger("osler.pretrain")

_NEAR = 0.06  # relative distance from the entropy that counts as stuck at it
_FLAT = 0.01  # relative fall of the mean loss below which it counts as flat
_STEPS = 200  # steps in the window; more if losses are logged rarely
_LOSSES = 8  # smallest number of losses in the window


def measure_peak(config: TrainConfig) -> DevicePeak:
    """Measure the FLOP/s of a large matrix product on this run's device, and multiply by the number of devices."""
    device = choose_device(config.device, int(os.environ.get("LOCAL_RANK", "0")))
    devices = int(os.environ.get("WORLD_SIZE", "1"))
    return DevicePeak(device_name(device), devices, matmul_peak(device, threads=config.threads) * devices)


def shown_on(bar: ProgressBar, peak: float | None) -> Callable[[StepReport], None]:
    """Return a callback that updates the bar. A run with a time budget shows the percentage of its time."""

    def show(report: StepReport) -> None:
        status = training_status(
            report.loss, report.tokens_per_second, report.flops_per_second, peak, report.seconds_left
        )
        if report.steps is None:
            bar.update(completed=round(100 * report.fraction), total=100, status=status)
        else:
            bar.update(completed=report.step, total=report.steps, status=status)

    return show


def unigram_entropy(shards: Iterable[np.ndarray], size: int, limit: int = 20_000_000) -> float:
    """Return the loss, in nats, of a model that knows only token frequencies, estimated from the first `limit` ids."""
    counts = np.zeros(size, dtype=np.int64)
    for shard in shards:
        counts += np.bincount(shard[: limit - int(counts.sum())], minlength=size)
        if counts.sum() >= limit:
            break
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


class PlateauWatch:
    """Watches the training loss and warns once if it is stuck at the unigram entropy."""

    def __init__(self, entropy: float) -> None:
        self.entropy = entropy
        self.found_at: int | None = None
        self._seen: deque[tuple[int, float]] = deque()

    def see(self, step: int, loss: float | None) -> None:
        """Record the loss after a step."""
        if loss is None or self.found_at is not None or (self._seen and step <= self._seen[-1][0]):
            return
        self._seen.append((step, loss))
        while len(self._seen) > _LOSSES and self._seen[-1][0] - self._seen[0][0] > _STEPS:
            self._seen.popleft()
        if len(self._seen) < _LOSSES or self._seen[-1][0] - self._seen[0][0] < 0.9 * _STEPS:
            return
        losses = np.array([value for _, value in self._seen])
        earlier, later = losses[: len(losses) // 2].mean(), losses[len(losses) // 2 :].mean()
        if earlier - later < _FLAT * earlier and abs(later - self.entropy) < _NEAR * self.entropy:
            self.found_at = step
            figures = {"loss": round(float(later), 3), "unigram": round(self.entropy, 3)}
            log.warning(
                "pretrain.unigram_plateau",
                "at step {step} the loss ({loss}) is stuck at the unigram entropy ({unigram}). Lower the learning rate (train.lr) "
                "to a third, lengthen the warm-up (train.warmup), use larger steps (accumulate) or a modernbert preset.",
                step=step,
                **figures,
            )
