"""One run of a study: its specification, status and results."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from osler.artifacts.bundle import Bundle
from osler.artifacts.evaluation import Evaluation, EvaluationMetrics
from osler.core.artifact import MANIFEST, Manifest
from osler.core.config import Recipe
from osler.core.errors import writing
from osler.core.files import write_json
from osler.text.document import Record

_WEIGHTS = ".safetensors"
PATHS = (".mlm.corpus", ".teacher.bundle", ".forms")
"""Settings that hold a path, by the end of their dotted name. `RunSpec.inputs` has their digests."""


def absolute_paths(values: Mapping[str, Any]) -> dict[str, Any]:
    """Make the paths in settings, or in a recipe with settings, absolute."""
    return dict(_map_paths(values, os.path.abspath))


def without_paths(values: Mapping[str, Any]) -> dict[str, Any]:
    """Set every path in settings, or in a recipe with settings, to None: locations do not affect results."""
    return dict(_map_paths(values, lambda _: None))


def _map_paths(value: Any, change: Callable[[str | Path], str | None], place: str = "") -> Any:
    if isinstance(value, Mapping):
        return {name: _map_paths(item, change, f"{place}.{name}") for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_map_paths(item, change, place) for item in value]
    return change(value) if isinstance(value, str | Path) and place.endswith(PATHS) else value


class RunSettings(Mapping[str, Any]):
    """Immutable settings, hashed, compared and stored as canonical JSON."""

    def __init__(self, values: Mapping[str, Any] | str = "{}") -> None:
        plain = json.loads(values) if isinstance(values, str) else dict(values)
        self.json = json.dumps(
            plain, sort_keys=True, default=lambda value: value.resolved() if isinstance(value, Recipe) else str(value)
        )
        self._values: dict[str, Any] = self.plain()

    def plain(self) -> dict[str, Any]:
        """Return a mutable copy."""
        values: dict[str, Any] = json.loads(self.json)
        return values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunSettings) and self.json == other.json

    def __hash__(self) -> int:
        return hash(self.json)


Mode = Literal["single", "together", "pair", "refine", "twin"]
"""twin: a single-task baseline of matched length, trained for as many steps as a joint run spent on the task."""
NO_SETTINGS = RunSettings()


@dataclass(frozen=True)
class RunSpec:
    """One fine-tuning of one model on one or more tasks, and one evaluation per scored column."""

    row: str
    """The model's name in the study."""
    model: str
    """A folder or hub name."""
    columns: tuple[str, ...]
    """The columns it trains on."""
    tasks: tuple[Path, ...]
    """Their task folders, in the same order."""
    task_digests: tuple[str, ...]
    seed: int
    split: str
    settings: RunSettings
    """Fine-tuning settings, including the grid point and the fraction."""
    point: RunSettings = NO_SETTINGS
    """The grid point, by dotted name."""
    fraction: float = 1.0
    mode: Mode = "single"
    fold: int | None = None
    after: str | None = None
    """Key of the refinement whose bundle this run starts from, in place of `model`."""
    equal_to: str | None = None
    """Single-task baseline: key of the joint run that sets its number of steps."""
    partner: str = ""
    """Single-task baseline of a pair: the other task of the pair."""
    alone: str | None = None
    """Single-task baseline: key of the run that differs only in length."""
    only_start: bool = False
    """Whether this is a refinement that other runs start from, without a line in the tables."""
    inputs: tuple[str, ...] = ()
    """Digests of the teacher and the corpus that the settings name by path."""
    kept_out: tuple[Path, ...] = ()
    """Tasks whose dev and test documents must not be trained on, because runs that start from this one are tested on them.
    `inputs` has their digests."""
    runtime: RunSettings = NO_SETTINGS
    """Training settings that do not affect results (device, threads, checkpoints). Not part of the key."""

    @property
    def is_plain(self) -> bool:
        """Whether it trains a single task on all of its data, without folds."""
        return self.mode == "single" and self.fraction == 1.0 and self.fold is None

    def key(self, model_digest: str) -> str:
        """The content address: the same start, data, settings and seed give the same key."""
        values = without_paths(self.settings)
        if values.get("decoding") == "greedy":
            values["decoding"] = "free"  # its name in the keys of earlier runs
        settings = json.dumps(values, sort_keys=True)
        content: list[Any] = [self.after or model_digest, list(self.task_digests), self.seed, self.split, settings]
        if self.inputs:
            content.append(list(self.inputs))
        if self.equal_to:
            # The number of steps is known only when the joint run is done; its key identifies them.
            content.append({"updates of": self.equal_to})
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:20]

    def to_dict(self) -> dict[str, Any]:
        paths = {name: [str(path) for path in getattr(self, name)] for name in ("tasks", "kept_out")}
        settings = {name: getattr(self, name).json for name in ("settings", "point", "runtime")}
        return {**asdict(self), **paths, **settings}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunSpec:
        lists = {name: tuple(values[name]) for name in ("columns", "task_digests", "inputs")}
        paths = {name: tuple(Path(path) for path in values[name]) for name in ("tasks", "kept_out")}
        settings = {name: RunSettings(values[name]) for name in ("settings", "point", "runtime")}
        return cls(**{**values, **lists, **paths, **settings})

    def write(self, folder: Path) -> None:
        write_json(folder / "spec.json", self.to_dict())

    @property
    def label(self) -> str:
        """A short, readable description."""
        tasks = "+".join(self.columns)
        if self.mode == "refine":
            tasks = f"refinement on {tasks}"
        if self.mode == "twin":
            tasks += f" for as many steps as with {self.partner or 'all tasks'}"
        parts = [self.row, tasks, f"seed {self.seed}"]
        if self.fold is not None:
            parts.append(f"fold {self.fold + 1}")
        if self.fraction < 1:
            parts.append(f"{self.fraction:.3g} of the data")
        return ", ".join([*parts, *(f"{name} {value}" for name, value in self.point.items())])


State = Literal["waiting", "running", "done", "stopped", "failed"]
"""stopped: the machine could not continue (such as a full disk), so the next study resumes the run. failed: the run itself
failed."""
_STATUS = "status.json"
_LOCK = ".running"


@dataclass(frozen=True)
class RunStatus:
    """Progress of a run."""

    state: State = "waiting"
    reason: str | None = None
    """Why it stopped or failed, without document text."""
    attempts: int = 0
    seconds: float = 0.0
    """Training and evaluation time over all attempts."""
    device: str | None = None
    peak_memory: int | None = None
    """Bytes on the GPU, if one was used."""
    processes: int = 1
    """Number of training processes, each on its own GPU if there are GPUs."""

    @property
    def failed(self) -> bool:
        return self.state == "failed"

    @property
    def stopped(self) -> bool:
        return self.state == "stopped"

    @classmethod
    def read(cls, folder: Path) -> RunStatus:
        """The status in a run's folder. A run without a readable status is waiting."""
        try:
            return cls(**json.loads((folder / _STATUS).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return cls()

    @classmethod
    def current(cls, folder: Path) -> RunStatus:
        """Like `read`, but "running" only while a process holds the lock: a killed process leaves its status behind."""
        found = cls.read(folder)
        return replace(found, state="waiting") if found.state == "running" and not _held(folder) else found

    def write(self, folder: Path) -> None:
        write_json(folder / _STATUS, asdict(self))


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Lock a run. Waits while another study that shares the store holds the lock."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = open(folder / _LOCK, "a")  # noqa: SIM115 - closed below, which releases the lock
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        handle.close()


def _held(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True  # locked, or the file system has no locks: trust the status
    finally:
        os.close(descriptor)
    return False


class RunTraining(BaseModel):
    """How a run was trained: the recipe and the counts in the manifest of its bundle."""

    model_config = ConfigDict(frozen=True)

    recipe: dict[str, Any]
    dev: dict[str, float] = {}
    """The dev score of each task."""
    steps: int = 0
    best_step: int | None = None
    """The step with the best dev score."""
    batches_trained: dict[str, int] = {}
    batches_an_epoch: dict[str, int] = {}
    batches_by_epoch: list[dict[str, int]] = []
    tokens: int | None = None
    flops: int | float | None = None
    parameters: int | None = None

    @classmethod
    def read(cls, folder: Path) -> RunTraining:
        manifest = Manifest.read(folder / "bundle" / MANIFEST)  # the weights may be gone
        return cls.model_validate({**manifest.counts, "recipe": manifest.recipe})

    @property
    def train(self) -> dict[str, Any]:
        """The `train` section of the recipe."""
        return dict(self.recipe.get("train", {}))

    def steps_on(self, task: str) -> int:
        """Number of training batches of one task: its steps, if a step takes one batch."""
        if task in self.batches_trained:
            return self.batches_trained[task]
        # Runs made before batches were counted by task: use the task's share of an epoch.
        batches, total = self.batches_an_epoch.get(task), sum(self.batches_an_epoch.values())
        return round(self.steps * batches / total) if batches is not None and total else self.steps

    @property
    def best_epoch(self) -> float | None:
        """The epoch with the best dev score, counted from 1."""
        # Early stopping leaves fewer steps than planned, so an epoch is a share of the planned steps. A step never crosses
        # the end of an epoch: the last step of an epoch may hold fewer batches.
        size, epochs = self.recipe.get("accumulate", 1), self.recipe.get("epochs")
        planned = sum(-(-sum(epoch.values()) // size) for epoch in self.batches_by_epoch) or self.steps
        return round(self.best_step / planned * epochs, 1) if self.best_step and planned and epochs else None

    @property
    def planned_steps(self) -> int | None:
        """Steps of the learning rate schedule, even if the run stopped early. None with a time budget."""
        return None if self.train.get("budget") else int(self.train.get("steps") or self._planned_batches)

    @property
    def eval_every(self) -> int:
        """Steps between two evaluations on dev."""
        return int(self.train.get("eval_every") or max(1, self._planned_batches // self.recipe["epochs"]))

    @property
    def _planned_batches(self) -> int:
        return sum(sum(epoch.values()) for epoch in self.batches_by_epoch)


@dataclass(frozen=True)
class Run:
    """A run of a study in its folder."""

    spec: RunSpec
    folder: Path
    chosen: bool = True
    """Whether its grid point, or this run itself, was chosen on dev. True if there was no choice."""

    @property
    def bundle(self) -> Path:
        return self.folder / "bundle"

    def evaluation(self, column: str) -> Path:
        return self.folder / "evaluation" / column

    @cached_property
    def training(self) -> RunTraining:
        return RunTraining.read(self.folder)

    @cached_property
    def status(self) -> RunStatus:
        return RunStatus.read(self.folder)

    @property
    def scored(self) -> bool:
        """Whether every column was scored. False for a run that only serves as a start for others."""
        return not self.spec.only_start and all(self.metrics(column) for column in self.spec.columns)

    def metrics(self, column: str) -> EvaluationMetrics | None:
        """The scores of one column, or None if it was not scored."""
        return Evaluation.read_metrics(self.evaluation(column))

    def predictions(self, column: str) -> list[Record]:
        return list(Evaluation.read_predictions(self.evaluation(column)))

    def dev_curve(self, task: str) -> list[tuple[float, float]]:
        """Dev score of a task by step."""
        evaluations = [record for record in self._history if record.get("kind") == "eval"]
        return [(float(item["step"]), float(item[task])) for item in evaluations if item.get(task) is not None]

    @property
    def tokens(self) -> int | None:
        """Tokens it was trained on. Read from the log for runs made before the manifest counted them."""
        logged = (int(record["tokens"]) for record in reversed(self._history) if record.get("tokens"))
        return next(logged, None) if self.training.tokens is None else self.training.tokens

    @cached_property
    def _history(self) -> list[dict[str, Any]]:
        return Bundle.read_history(self.bundle)


@dataclass(frozen=True)
class AcrossTask:
    """A task on which runs of another column are scored."""

    head: str
    """The task trained on, which gives the head its name."""
    column: str
    """The column tested on."""
    task: Path
    """Its task folder."""
    digest: str
    protocol: str
    """Its protocol in the study."""
    label_map: tuple[tuple[str, str], ...] = ()
    """Pairs of a head's label and the task's label, where they differ."""

    def evaluation(self, folder: Path) -> Path:
        """Path of the score in a run's folder."""
        # A run's key says nothing about other tasks, and studies that share a store may score it on different ones.
        content = json.dumps([self.digest, self.protocol, self.label_map])
        return folder / "across" / f"{self.column}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"

    def is_scored(self, folder: Path) -> bool:
        return Evaluation.read_metrics(self.evaluation(folder)) is not None


def is_trained(folder: Path) -> bool:
    """Whether fine-tuning of a run is complete."""
    return (folder / "bundle" / MANIFEST).is_file()


def lacks_weights(folder: Path) -> bool:
    """Whether a run is fine-tuned but its weights were removed."""
    if not is_trained(folder):
        return False
    files = Manifest.read(folder / "bundle" / MANIFEST).files
    return any(name.endswith(_WEIGHTS) and not (folder / "bundle" / name).is_file() for name in files)


def remove_weights(folder: Path) -> None:
    """Remove the weights of a run. Its manifest, history and scores stay."""
    for path in (folder / "bundle").glob(f"*{_WEIGHTS}"):
        path.unlink(missing_ok=True)
