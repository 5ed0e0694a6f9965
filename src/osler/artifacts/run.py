"""One run of a study: its specification, its status and its results."""

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

from osler.core.errors import writing
from osler.core.files import write_json

PATHS = (".mlm.corpus", ".teacher.bundle")
"""Where settings hold a path: the end of a dotted name. Digests of what lies there are `RunSpec.inputs`."""


def with_whole_paths(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings, or a recipe with settings in it, that mean the same in any working folder."""
    whole: dict[str, Any] = _changed(values, os.path.abspath)
    return whole


def without_paths(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same less the text of these paths: what cannot make a result a different one."""
    rest: dict[str, Any] = _changed(values, lambda _: None)
    return rest


def _changed(value: Any, change: Callable[[str | Path], str | None], place: str = "") -> Any:
    if isinstance(value, Mapping):
        return {name: _changed(item, change, f"{place}.{name}") for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_changed(item, change, place) for item in value]
    return change(value) if isinstance(value, str | Path) and place.endswith(PATHS) else value


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


State = Literal["waiting", "running", "done", "failed"]
_LOCK = ".running"


@dataclass(frozen=True)
class RunStatus:
    """What status.json of a run says."""

    state: State = "waiting"
    reason: str | None = None
    """Why it failed; never document text."""
    attempts: int = 0
    seconds: float = 0.0
    """Of the work that was finished, the evaluation included."""
    device: str | None = None
    peak_memory: int | None = None
    """Bytes on a GPU, where one was used."""
    processes: int = 1
    """Processes that it was trained with, each on a GPU of its own where there are GPUs."""

    def changed(self, **values: Any) -> RunStatus:
        """A copy with some fields replaced."""
        return replace(self, **values)

    def write(self, folder: Path) -> None:
        """Write status.json."""
        write_json(folder / "status.json", asdict(self))


def read_status(folder: Path) -> RunStatus:
    """The status a run's folder holds; a missing or damaged one is that of a run that waits."""
    try:
        values = json.loads((folder / "status.json").read_text(encoding="utf-8"))
        return RunStatus(**values)
    except (OSError, ValueError, TypeError):
        return RunStatus()


def state_of(folder: Path) -> RunStatus:
    """The status as it really is: "running" only while a process holds the run."""
    found = read_status(folder)
    return found.changed(state="waiting") if found.state == "running" and not _held(folder) else found


def is_trained(folder: Path) -> bool:
    """Whether the fine-tuning of a run is done."""
    return (folder / "bundle" / "manifest.json").is_file()


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Hold a run; where another process has it (a study that shares the store), wait until that one is through."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = open(folder / _LOCK, "a")  # noqa: SIM115 - closed below, which lets go of the lock
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
    except BlockingIOError:
        return True
    except OSError:
        return True  # a file system without locks: believe what is written
    finally:
        os.close(descriptor)
    return False


def time_left(
    costs: Mapping[str, float], seconds: Mapping[str, float], todo: Mapping[str, float], at_once: int
) -> float | None:
    """Seconds until all is done, by what the finished runs took for their expected length; None before the first."""
    known = {key: value for key, value in seconds.items() if value > 0 and key in costs}
    if not known:
        return None
    pace = sum(known.values()) / sum(costs[key] for key in known)
    remaining = [cost * pace for cost in todo.values()]
    # The end is never before the longest run that is left.
    return max(sum(remaining) / max(1, at_once), max(remaining, default=0.0))
