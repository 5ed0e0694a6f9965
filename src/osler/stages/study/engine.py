"""How one run is done, wherever it is done: a job, who does it, and what came of it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from osler.core.errors import OslerError
from osler.core.files import write_json
from osler.stages.study.spec import FinishedRun, RunSpec
from osler.stages.study.status import RunStatus, holding, is_trained, read_status
from osler.stages.study.twins import Updates


@dataclass(frozen=True)
class Job:
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
    updates: Updates | None = None
    """Of a twin: how long it trains, in place of its epochs."""


@dataclass(frozen=True)
class Outcome:
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


class Runner(Protocol):
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

    def train(self, job: Job) -> Facts:
        """Fine-tune into folder/bundle, or reuse what is there."""
        ...

    def score(self, job: Job) -> Facts:
        """Score every column into folder/evaluation/COLUMN, or reuse what is there."""
        ...


class Engine(Protocol):
    """Does jobs: here, in processes of this machine, or on a cluster."""

    @property
    def at_once(self) -> int:
        """How many jobs are done at the same time, about."""
        ...

    def take(self, job: Job) -> bool:
        """Begin a job, or say that there is no room for it now."""
        ...

    def wait(self) -> Sequence[tuple[Job, Outcome]]:
        """Jobs that ended; waits a short while for one."""
        ...

    def close(self) -> None:
        """Let go of everything; jobs that are not done are stopped and can be continued."""
        ...


def attempt(job: Job, runner: Runner) -> Outcome:
    """Do one job and note in its folder how it went. A failure is an outcome; being stopped is not one and goes on upwards."""
    with holding(job.folder):
        before = read_status(job.folder)
        if _is_done(job, before):
            return Outcome(before)  # another study did it meanwhile
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
        return Outcome(status)


def failed(job: Job, reason: str) -> Outcome:
    """The outcome of a job whose process is no more, noted in its folder."""
    status = read_status(job.folder).changed(state="failed", reason=reason)
    status.write(job.folder)
    return Outcome(status)


def safe_reason(error: BaseException) -> str:
    """An unforeseen error without its message, which may quote a document."""
    kind = type(error).__name__
    if kind in {"OutOfMemoryError", "MemoryError"}:
        return "out of memory; use fewer workers or smaller batch_tokens"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"internal error ({kind}{place})"


def _is_done(job: Job, status: RunStatus) -> bool:
    done = status.state == "done" and is_trained(job.folder)
    return done and (not job.score or FinishedRun(job.spec, job.folder).scored)


class InlineEngine:
    """One job after the other, in this process."""

    at_once = 1

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._job: Job | None = None

    def take(self, job: Job) -> bool:
        """Keep one job for `wait`."""
        if self._job is not None:
            return False
        self._job = job
        return True

    def wait(self) -> Sequence[tuple[Job, Outcome]]:
        """Do the job."""
        job, self._job = self._job, None
        return [] if job is None else [(job, attempt(job, self._runner))]

    def close(self) -> None:
        """Nothing to let go of."""
