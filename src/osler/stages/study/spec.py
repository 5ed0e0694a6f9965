"""What one run of a study is, and what a finished one left behind.

A run is a folder of the store, named by its content address:

    spec.json                 the run, for people and for `status`
    status.json               waiting, running, done or failed, with the reason, seconds and device
    bundle/                   what was fine-tuned
    evaluation/COLUMN/        predictions and metrics of each scored column
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

Mode = Literal["single", "together", "pair", "refine"]


@dataclass(frozen=True)
class RunSpec:
    """One fine-tuning of one model on one task or several, and one evaluation of each scored column."""

    row: str
    """The model's name in the study."""
    model: str
    """A folder or hub name."""
    columns: tuple[str, ...]
    """The columns it trains on; for a single run one."""
    tasks: tuple[Path, ...]
    """Their task artifacts, in the same order."""
    task_digests: tuple[str, ...]
    seed: int
    split: str
    settings: str
    """Fine-tuning settings as canonical JSON, the grid point and the fraction included, so that specs hash and compare."""
    point: str = "{}"
    """The grid point as canonical JSON."""
    fraction: float = 1.0
    mode: Mode = "single"
    fold: int | None = None
    after: str | None = None
    """The key of the refinement whose bundle this run starts from, in place of `model`."""

    def key(self, model_digest: str) -> str:
        """The content address: same model (or refinement), data, settings and seed, same run."""
        start = self.after or model_digest
        content = json.dumps([start, list(self.task_digests), self.seed, self.split, self.settings, self.mode])
        return hashlib.sha256(content.encode()).hexdigest()[:20]

    def plain(self) -> dict[str, Any]:
        """For spec.json."""
        return {**asdict(self), "tasks": [str(path) for path in self.tasks]}


@dataclass(frozen=True)
class FinishedRun:
    """A run that is done."""

    spec: RunSpec
    folder: Path

    @cached_property
    def counts(self) -> dict[str, Any]:
        """What fine-tuning counted: dev scores by task, best update, batches of each task, documents removed as leaks."""
        counts: dict[str, Any] = json.loads((self.folder / "bundle" / "manifest.json").read_text())["counts"]
        return counts

    @cached_property
    def status(self) -> dict[str, Any]:
        """State, seconds and device."""
        status: dict[str, Any] = json.loads((self.folder / "status.json").read_text())
        return status

    def metrics(self, column: str) -> dict[str, Any]:
        """The scores of one column, with their protocol."""
        metrics: dict[str, Any] = json.loads((self.evaluation(column) / "metrics.json").read_text())
        return metrics

    def evaluation(self, column: str) -> Path:
        """The folder with predictions and metrics of one column."""
        return self.folder / "evaluation" / column
