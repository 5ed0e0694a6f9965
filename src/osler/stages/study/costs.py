"""What the numbers cost: tokens and arithmetic, which are the same every time, and seconds and devices, which are kept apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from osler.stages.study.spec import FinishedRun


@dataclass(frozen=True)
class Timing:
    """The time of one model on one set of tasks learned in one way, over seeds, folds and grid points."""

    row: str
    columns: tuple[str, ...]
    mode: str
    fraction: float
    runs: int
    seconds: float
    """Of all runs, those that dev did not choose included: choosing is part of the cost."""
    chosen_runs: int
    chosen_seconds: float
    gpu_seconds: float
    """Of all runs: their seconds on a GPU, times the GPUs that each had; runs that share one count each."""
    devices: tuple[str, ...]


@dataclass(frozen=True)
class Work:
    """What a study computed, each run once however many cells it stands in."""

    runs: int = 0
    tokens: int = 0
    """Tokens of training."""
    flops: float = 0.0
    """Floating-point operations of training."""
    uncounted: int = 0
    """Runs whose work is not known: they were done before fine-tuning counted it."""


def work(finished: Sequence[FinishedRun]) -> Work:
    """The work of all finished runs."""
    counts = {run.folder: run.counts for run in finished}.values()
    known = [count for count in counts if "flops" in count]
    return Work(
        len(counts),
        sum(int(count["tokens"]) for count in known),
        sum(float(count["flops"]) for count in known),
        len(counts) - len(known),
    )


def timings(finished: Sequence[FinishedRun]) -> list[Timing]:
    """Times by model, tasks and way of learning; a run whose time is not known is left out."""
    grouped: dict[tuple[str, tuple[str, ...], str, float], list[FinishedRun]] = {}
    plain = {run.folder for run in finished if run.spec.mode != "twin"}
    for run in finished:
        if run.spec.mode == "twin" and run.folder in plain:
            continue  # a twin that needed no run of its own
        if (run.folder / "status.json").is_file() and run.status.get("seconds") is not None:
            spec = run.spec
            grouped.setdefault((spec.row, spec.columns, spec.mode, spec.fraction), []).append(run)
    return [
        Timing(
            *key,
            len(runs),
            sum(float(run.status["seconds"]) for run in runs),
            sum(run.chosen for run in runs),
            sum(float(run.status["seconds"]) for run in runs if run.chosen),
            sum(_gpu_seconds(run) for run in runs),
            tuple(sorted({str(run.status["device"]) for run in runs if run.status.get("device")})),
        )
        for key, runs in grouped.items()
    ]


def _gpu_seconds(run: FinishedRun) -> float:
    if run.status.get("device") in (None, "cpu"):
        return 0.0
    return float(run.status["seconds"]) * int(run.status.get("processes", 1))
