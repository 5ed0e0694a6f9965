"""What a person sees while pretraining runs: loss, speed, the share of what the device could do at best, the time left."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from osler.core.console import Bar, training_status
from osler.core.files import write_json
from osler.train.config import TrainConfig
from osler.train.peak import device_name, matmul_peak
from osler.train.precision import choose_device
from osler.train.run import StepReport

PEAK = "peak.json"


def measured_peak(config: TrainConfig, logs: Path) -> float:
    """FLOP/s of a large matrix product on this run's device, times their number; also kept beside the logs."""
    device = choose_device(config.device, int(os.environ.get("LOCAL_RANK", "0")))
    devices = int(os.environ.get("WORLD_SIZE", "1"))
    peak = matmul_peak(device, threads=config.threads) * devices
    write_json(logs / PEAK, {"device": device_name(device), "devices": devices, "flops_per_second": peak})
    return peak


def shown_on(bar: Bar, peak: float | None) -> Callable[[StepReport], None]:
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
