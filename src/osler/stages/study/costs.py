"""What the numbers cost: seconds and devices of the runs behind every cell. Kept apart, for they differ from run to run."""

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
    devices: tuple[str, ...]


def timings(finished: Sequence[FinishedRun]) -> list[Timing]:
    """Times by model, tasks and way of learning; a run whose time is not known is left out."""
    grouped: dict[tuple[str, tuple[str, ...], str, float], list[FinishedRun]] = {}
    for run in finished:
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
            tuple(sorted({str(run.status["device"]) for run in runs if run.status.get("device")})),
        )
        for key, runs in grouped.items()
    ]
