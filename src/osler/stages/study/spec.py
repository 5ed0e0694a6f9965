"""What one run of a study is, and what a finished one left behind.

A run is a folder of the store, named by its content address:

    spec.json                 the run, for people and for `status`
    status.json               running, done or failed, with the reason, attempts, seconds and device
    bundle/                   what was fine-tuned
    evaluation/COLUMN/        predictions and metrics of each scored column

The engine does runs; the reports read them. They meet in one call: `report.write_reports(recipe, runs, missing, folder)` gets
every finished run (also those that dev did not choose, which have no evaluation) and the runs that are not done, and writes
results.json, the tables and the page into `folder`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from osler.stages.study.paths import without_paths

Mode = Literal["single", "together", "pair", "refine", "twin"]
"""twin: a task alone with as many updates as a run of several tasks gave it."""


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
    equal_to: str | None = None
    """Of a twin: the key of the joint run that says how many updates it has."""
    partner: str = ""
    """Of a twin of a pair: the other task of the pair."""
    alone: str | None = None
    """Of a twin: the key of the run that differs from it in nothing but its length."""
    only_start: bool = False
    """A refinement that other runs start from, and that has no line in the tables."""
    inputs: tuple[str, ...] = ()
    """Digests of what the settings name by path (a teacher, a corpus), so that another one is another run."""
    kept_out: tuple[Path, ...] = ()
    """Tasks whose dev and test this run must not learn from, for runs that start from it are tested on them; their digests are inputs."""
    runtime: str = "{}"
    """Training settings that change no result (device, threads, checkpoints), as canonical JSON; no part of the key."""

    def key(self, model_digest: str) -> str:
        """The content address: same model (or refinement), data, settings and seed, same run, whatever it is for."""
        start = self.after or model_digest
        # What settings name by path is in `inputs` by its content.
        settings = json.dumps(without_paths(json.loads(self.settings)), sort_keys=True)
        content: list[Any] = [start, list(self.task_digests), self.seed, self.split, settings]
        if self.inputs:
            content.append(list(self.inputs))
        if self.equal_to:
            # How many updates that run gave is known when it is done; which run it is says as much.
            content.append({"updates of": self.equal_to})
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:20]

    def plain(self) -> dict[str, Any]:
        """For spec.json."""
        paths = {name: [str(path) for path in getattr(self, name)] for name in ("tasks", "kept_out")}
        return {**asdict(self), **paths}

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> RunSpec:
        """The run that `plain` wrote."""
        lists = {name: tuple(values[name]) for name in ("columns", "task_digests", "inputs")}
        paths = {name: tuple(Path(path) for path in values[name]) for name in ("tasks", "kept_out")}
        return cls(**{**values, **lists, **paths})

    @property
    def label(self) -> str:
        """The run in a few words, for a person."""
        parts = [self.row, "+".join(self.columns), f"seed {self.seed}"]
        if self.mode == "refine":
            parts[1] = f"refinement on {parts[1]}"
        if self.mode == "twin":
            parts[1] += f" with the updates of learning it with {self.partner or 'all'}"
        if self.fold is not None:
            parts.append(f"fold {self.fold + 1}")
        if self.fraction < 1:
            parts.append(f"{self.fraction:.3g} of the data")
        parts += [f"{name} {value}" for name, value in json.loads(self.point).items()]
        return ", ".join(parts)


@dataclass(frozen=True)
class FinishedRun:
    """A run that is done."""

    spec: RunSpec
    folder: Path
    chosen: bool = True
    """Whether dev chose it (its grid point, or this very run); always true where there was nothing to choose."""

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

    @property
    def scored(self) -> bool:
        """Whether every column of it was scored; a run that dev did not choose is not, nor one that others only start from."""
        return not self.spec.only_start and all(
            (self.evaluation(column) / "metrics.json").is_file() for column in self.spec.columns
        )

    def metrics(self, column: str) -> dict[str, Any]:
        """The scores of one column, with their protocol."""
        metrics: dict[str, Any] = json.loads((self.evaluation(column) / "metrics.json").read_text())
        return metrics

    def evaluation(self, column: str) -> Path:
        """The folder with predictions and metrics of one column."""
        return self.folder / "evaluation" / column
