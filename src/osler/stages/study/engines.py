"""Engines: how one run is executed, in this process or in worker processes, and how many runs fit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from osler.artifacts.run import FinishedRun, RunSpec, RunStatus, holding, is_trained, read_status
from osler.core.errors import OslerError
from osler.core.files import write_json
from osler.core.processes import cores


@dataclass(frozen=True)
class MatchedLength:
    """How long a run trains, and how often it looks at dev."""

    steps: int
    eval_every: int


def updates_of(joint: Path, task: str) -> MatchedLength:
    """The updates that a joint run gave a task, with dev looked at as often over their course as the joint run did."""
    made = _Made.read(joint)
    steps = made.trained(task)
    return MatchedLength(steps, max(1, made.eval_every * steps // max(1, made.steps)))


def same_length(joint: Path, alone: Path, task: str) -> bool:
    """Whether a finished run of the task alone has these updates already, so that a twin would be that run once more."""
    one, two = _Made.read(joint), _Made.read(alone)
    wanted = updates_of(joint, task)
    if not wanted.steps == two.trained(task) == two.steps == two.planned:
        return False
    each_epoch = one.looks_each_epoch and two.looks_each_epoch and one.epochs == two.epochs
    return each_epoch or two.eval_every == wanted.eval_every


def folder_of(store: Path, key: str, spec: RunSpec) -> Path:
    """Where a run's files are: its own folder, or of a twin that needs no run of its own that of the run which has its updates."""
    own = store / key
    if spec.equal_to is None or spec.alone is None or is_trained(own):
        return own
    joint, alone = store / spec.equal_to, store / spec.alone
    whole = is_trained(joint) and is_trained(alone)
    return alone if whole and same_length(joint, alone, spec.columns[0]) else own


@dataclass(frozen=True)
class _Made:
    """What the manifest of a fine-tuned run says of its length."""

    counts: dict[str, Any]
    recipe: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> _Made:
        manifest = json.loads((folder / "bundle" / "manifest.json").read_text(encoding="utf-8"))
        return cls(manifest["counts"], manifest["recipe"])

    @property
    def epochs(self) -> int:
        return int(self.recipe["epochs"])

    @property
    def steps(self) -> int:
        return int(self.counts["steps"])

    @property
    def planned(self) -> int | None:
        """The updates its schedule was made for; they are more than it did where dev stopped it. None under a budget of time."""
        train = self.recipe.get("train", {})
        if train.get("budget"):
            return None
        batches = sum(sum(epoch.values()) for epoch in self.counts["batches_by_epoch"])
        return int(train.get("steps") or batches)

    @property
    def looks_each_epoch(self) -> bool:
        return self.recipe.get("train", {}).get("eval_every") is None

    @property
    def eval_every(self) -> int:
        """Updates from one look at dev to the next, as fine-tuning has it."""
        batches = sum(sum(epoch.values()) for epoch in self.counts["batches_by_epoch"])
        return int(self.recipe.get("train", {}).get("eval_every") or max(1, batches // self.epochs))

    def trained(self, task: str) -> int:
        return int(self.counts["batches_trained"].get(task, 0))


@dataclass(frozen=True)
class RunJob:
    """What to do for one run: fine-tune if that is not done, and score where it is asked for."""

    spec: RunSpec
    key: str
    folder: Path
    start: str
    """The model to start from: the row's, or the bundle of a refinement."""
    score: bool
    cost: float = 0.0
    memory: int = 0
    """Bytes it is expected to need, for an engine that asks."""
    threads: int | None = None
    """CPU threads; None leaves it to the settings and to torch."""
    processes: int = 1
    """Processes of the run, started with torchrun where there are several."""
    updates: MatchedLength | None = None
    """Of a twin: how long it trains, in place of its epochs."""


@dataclass(frozen=True)
class RunOutcome:
    """What came of a job."""

    status: RunStatus

    @property
    def failed(self) -> bool:
        """Whether it failed."""
        return self.status.state == "failed"


@dataclass(frozen=True)
class Facts:
    """What a run tells about the machine it ran on."""

    device: str | None = None
    peak_memory: int | None = None


class RunExecutor(Protocol):
    """Fine-tunes and scores. Given by the caller, for stages do not know each other; sent to other processes by pickle."""

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that take long to load and that every process it is sent to will need."""
        ...

    def identify(self, model: str) -> str:
        """A digest of the model's files."""
        ...

    def check(self, spec: RunSpec, where: str) -> tuple[str, ...]:
        """Refuse settings that cannot be run, naming `where`; returns the digests of what they name by path."""
        ...

    def memory(self, spec: RunSpec) -> int:
        """Bytes the run will need, about; 0 where nothing is known."""
        ...

    def train(self, job: RunJob) -> Facts:
        """Fine-tune into folder/bundle, or reuse what is there."""
        ...

    def score(self, job: RunJob) -> Facts:
        """Score every column into folder/evaluation/COLUMN, or reuse what is there."""
        ...


class Engine(Protocol):
    """Does jobs: here, in processes of this machine, or on a cluster."""

    @property
    def at_once(self) -> int:
        """How many jobs are done at the same time, about."""
        ...

    def take(self, job: RunJob) -> bool:
        """Begin a job, or say that there is no room for it now."""
        ...

    def wait(self) -> Sequence[tuple[RunJob, RunOutcome]]:
        """Jobs that ended; waits a short while for one."""
        ...

    def close(self) -> None:
        """Let go of everything; jobs that are not done are stopped and can be continued."""
        ...


def attempt(job: RunJob, runner: RunExecutor) -> RunOutcome:
    """Do one job and note in its folder how it went. A failure is an outcome; being stopped is not one and goes on upwards."""
    with holding(job.folder):
        before = read_status(job.folder)
        if _is_done(job, before):
            return RunOutcome(before)  # another study did it meanwhile
        write_json(job.folder / "spec.json", job.spec.plain())
        # Scoring a run that was trained before is no new attempt.
        attempts = before.attempts + (before.state != "done")
        processes = before.processes if is_trained(job.folder) else job.processes
        status = before.changed(state="running", reason=None, attempts=attempts, processes=processes)
        status.write(job.folder)
        started = time.monotonic()
        facts: Facts = Facts()
        try:
            facts = runner.train(job)
            if job.score:
                scored = runner.score(job)
                facts = facts if facts.device else scored
            status = status.changed(state="done")
        except OslerError as error:
            status = status.changed(state="failed", reason=error.problem)
        except (KeyboardInterrupt, SystemExit):
            status.changed(state="waiting").write(job.folder)
            raise
        except Exception as error:
            status = status.changed(state="failed", reason=safe_reason(error))
        status = status.changed(
            seconds=round(before.seconds + time.monotonic() - started, 3),
            device=facts.device or before.device,
            peak_memory=facts.peak_memory or before.peak_memory,
        )
        status.write(job.folder)
        return RunOutcome(status)


def failed(job: RunJob, reason: str) -> RunOutcome:
    """The outcome of a job whose process is no more, noted in its folder."""
    status = read_status(job.folder).changed(state="failed", reason=reason)
    status.write(job.folder)
    return RunOutcome(status)


def safe_reason(error: BaseException) -> str:
    """An unforeseen error without its message, which may quote a document."""
    kind = type(error).__name__
    if kind in {"OutOfMemoryError", "MemoryError"}:
        return "out of memory; use fewer workers or smaller batch_tokens"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"internal error ({kind}{place})"


def _is_done(job: RunJob, status: RunStatus) -> bool:
    done = status.state == "done" and is_trained(job.folder)
    return done and (not job.score or FinishedRun(job.spec, job.folder).scored)


class InlineEngine:
    """One job after the other, in this process."""

    at_once = 1

    def __init__(self, runner: RunExecutor) -> None:
        self._runner = runner
        self._job: RunJob | None = None

    def take(self, job: RunJob) -> bool:
        """Keep one job for `wait`."""
        if self._job is not None:
            return False
        self._job = job
        return True

    def wait(self) -> Sequence[tuple[RunJob, RunOutcome]]:
        """Do the job."""
        job, self._job = self._job, None
        return [] if job is None else [(job, attempt(job, self._runner))]

    def close(self) -> None:
        """Nothing to let go of."""


_GPU_SHARE = 0.9
"""Of the free memory; the rest is for what an estimate misses."""


@dataclass(frozen=True)
class RunSlot:
    """Where runs are done: the CPU, a GPU, or as many GPUs as a run has processes."""

    visible: str | None
    """For CUDA_VISIBLE_DEVICES; None leaves it alone."""
    memory: int
    """Bytes that are free."""


@dataclass(frozen=True)
class Room:
    """The places, how many runs are done at once, and the CPU threads of each."""

    places: tuple[RunSlot, ...]
    workers: int
    threads: int
    gated: bool
    """Whether a run waits until its place has memory for it; not where a person said how many."""


def room(workers: int, *, runs: int, processes: int = 1, cpu_only: bool = False, smallest: int = 0) -> Room:
    """The room on this machine for so many runs; `workers` 0 chooses.

    On a GPU as many as its memory holds, at most one a core, and no more than end the study in as many rounds: runs that share a GPU
    slow each other down (20 runs on 16 cores: 10 at a time). `smallest` is what the smallest run is expected to need.
    Without one, half as many as cores, each with its share of them.
    """
    gpus = [] if cpu_only else visible_gpus()
    available = cores()
    if gpus:
        places = _together(gpus, processes)
        fitting = sum(max(1, int(place.memory * _GPU_SHARE) // smallest) if smallest else 1 for place in places)
        most = max(1, min(fitting, available, runs))
        chosen = workers or -(-runs // -(-runs // most))
    else:
        places = (RunSlot(None, _free_memory()),)
        chosen = workers or max(1, available // (2 * processes))
    chosen = max(1, min(chosen, runs))
    return Room(places, chosen, max(1, available // (chosen * processes)), gated=workers == 0)


def fits(place: RunSlot, used: int, wanted: int) -> bool:
    """Whether a run has room beside those that are there; the first always has."""
    return used == 0 or used + wanted <= place.memory * _GPU_SHARE


def visible_gpus() -> list[RunSlot]:
    """The GPUs this process may use, with their free memory, without taking any of it."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is not None and not allowed.strip().strip("-1"):
        return []
    if shutil.which("nvidia-smi") is None:
        return _asked_of_torch()
    query = ["nvidia-smi", "--query-gpu=index,uuid,memory.free", "--format=csv,noheader,nounits"]
    done = subprocess.run(query, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        return _asked_of_torch()
    return listed_gpus(done.stdout, allowed)


def listed_gpus(listing: str, allowed: str | None) -> list[RunSlot]:
    """The GPUs of a listing by nvidia-smi (index, uuid, free MiB) that CUDA_VISIBLE_DEVICES allows, in its order."""
    found: dict[str, RunSlot] = {}
    for line in listing.strip().splitlines():
        index, uuid, free = (part.strip() for part in line.split(","))
        found[index] = found[uuid] = RunSlot(index, int(free) << 20 if free.isdigit() else 0)
    if allowed is None:
        return [place for name, place in found.items() if name == place.visible]
    return [found[name.strip()] for name in allowed.split(",") if name.strip() in found]


def _asked_of_torch() -> list[RunSlot]:
    import torch

    if not torch.cuda.is_available():
        return []
    return [RunSlot(str(index), torch.cuda.mem_get_info(index)[0]) for index in range(torch.cuda.device_count())]


def _together(gpus: list[RunSlot], processes: int) -> tuple[RunSlot, ...]:
    """GPUs in sets of as many as a run has processes; the memory of a set is that of its fullest."""
    size = min(processes, len(gpus))
    sets = [gpus[first : first + size] for first in range(0, len(gpus) - size + 1, size)]
    return tuple(
        RunSlot(",".join(gpu.visible or "" for gpu in chunk), min(gpu.memory for gpu in chunk)) for chunk in sets
    )


def _free_memory() -> int:
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
