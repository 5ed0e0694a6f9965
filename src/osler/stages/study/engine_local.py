"""Runs in local worker processes. If a worker is killed, only its run fails and a new worker replaces it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from osler.artifacts.run import RunStatus
from osler.core.console import console
from osler.core.processes import with_modules
from osler.stages.study import runner
from osler.stages.study.engines import Room, RunSlot, fits
from osler.stages.study.runner import RunJob, Step

_POLL_SECONDS = 1.0
_GRACE_SECONDS = 20.0
"""Time for a run to write a checkpoint after Ctrl-C."""
PRELOADED = ("osler.stages.finetune.run", "osler.stages.evaluate.run", "transformers.models.auto.modeling_auto")
"""Slow modules that every worker needs, loaded once for all of them."""


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    slot: int
    job: RunJob | None = None


class LocalEngine:
    """Engine of worker processes, each bound to a slot and reused for many runs."""

    def __init__(self, space: Room) -> None:
        self._room = space
        self._workers: list[_Worker] = []
        self._context = with_modules(PRELOADED)

    @property
    def at_once(self) -> int:
        return self._room.workers

    def take(self, job: RunJob) -> bool:
        """Give a job to a free worker in a slot that has room, or return False."""
        busy = [worker for worker in self._workers if worker.job is not None]
        if len(busy) >= self._room.workers:
            return False
        slot = self._find_slot(job, busy)
        if slot is None:
            return False
        free = next((worker for worker in self._workers if worker.job is None and worker.slot == slot), None)
        worker = free or self._start_worker(slot)
        worker.job = replace(job, threads=self._room.threads)
        worker.pipe.send(worker.job)
        return True

    def wait(self) -> Sequence[tuple[RunJob, RunStatus]]:
        """Return the jobs of workers that sent a status or died."""
        busy = [worker for worker in self._workers if worker.job is not None]
        if not busy:
            return []
        handles: dict[Any, _Worker] = {worker.pipe: worker for worker in busy}
        handles |= {worker.process.sentinel: worker for worker in busy}
        ended = {id(handles[handle]): handles[handle] for handle in wait(list(handles), timeout=_POLL_SECONDS)}
        return [found for worker in ended.values() if (found := self._outcome(worker)) is not None]

    def close(self) -> None:
        """Stop all workers, giving current runs time to write a checkpoint."""
        for worker in self._workers:
            if worker.job is not None:
                _signal(worker, signal.SIGTERM)
            worker.pipe.close()
        deadline = time.monotonic() + _GRACE_SECONDS
        for worker in self._workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            _signal(worker, signal.SIGKILL)
            worker.process.join()
        self._workers = []

    def _outcome(self, worker: _Worker) -> tuple[RunJob, RunStatus] | None:
        job = worker.job
        assert job is not None
        try:
            status: RunStatus | None = worker.pipe.recv() if worker.pipe.poll() else None
        except (EOFError, OSError):
            status = None
        if status is None:
            if worker.process.is_alive() and not worker.pipe.poll():
                return None
            worker.process.join()
            status = runner.record_failure(job, _death(worker.process.exitcode))
            # Processes that the run started (torchrun) must not outlive it.
            _signal(worker, signal.SIGKILL)
            worker.pipe.close()
            self._workers.remove(worker)
        worker.job = None
        return job, status

    def _find_slot(self, job: RunJob, busy: Sequence[_Worker]) -> int | None:
        """Return the slot with the fewest runs that has room for the job."""
        used = [0] * len(self._room.slots)
        held = [0] * len(self._room.slots)
        for worker in busy:
            assert worker.job is not None
            used[worker.slot] += max(1, worker.job.memory)
            held[worker.slot] += 1
        order = sorted(range(len(used)), key=lambda number: (held[number], used[number], number))
        for number in order:
            if not self._room.gated or fits(self._room.slots[number], used[number], job.memory):
                return number
        return None

    def _start_worker(self, slot: int) -> _Worker:
        # Idle workers make way for a worker in another slot.
        for idle in [worker for worker in self._workers if worker.job is None]:
            if len(self._workers) >= self._room.workers:
                idle.pipe.close()
                idle.process.join(_GRACE_SECONDS)
                self._workers.remove(idle)
        ours, theirs = self._context.Pipe()
        steps = (runner.train, runner.score)
        arguments = (theirs, steps, self._room.slots[slot], self._room.threads, dict(os.environ))
        process = self._context.Process(target=_work, args=arguments, daemon=False)  # type: ignore[attr-defined]
        process.start()
        theirs.close()
        worker = _Worker(process, ours, slot)
        self._workers.append(worker)
        return worker


def _work(
    pipe: Connection, steps: tuple[Step, Step], slot: RunSlot, threads: int, environment: Mapping[str, str]
) -> None:
    """Worker process: do jobs and send their status until the pipe is closed."""
    os.environ.clear()
    os.environ.update(environment)
    # In a process group of its own, Ctrl-C reaches it once, through the parent, and processes it starts die with it.
    os.setpgrp()
    _end_with_parent()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if slot.visible is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = slot.visible
    console().quiet = True
    try:
        while True:
            job = pipe.recv()
            pipe.send(runner.attempt(job, *steps))
    except (EOFError, KeyboardInterrupt, BrokenPipeError):
        return


def _end_with_parent() -> None:
    """Stop this worker and the processes it started as soon as its parent is killed; the next study resumes the run."""
    parent = multiprocessing.parent_process()

    def watch(sentinel: int) -> None:
        wait([sentinel])
        os.killpg(0, signal.SIGKILL)

    if parent is not None:
        threading.Thread(target=watch, args=(parent.sentinel,), daemon=True).start()


def _signal(worker: _Worker, number: int) -> None:
    """Signal a worker's process group, or the worker alone if it has not made its group yet."""
    pid = worker.process.pid
    if pid is None:
        return
    try:
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
            return
    except ProcessLookupError:
        # The worker is gone; other processes of its group may not be.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)
        return
    if worker.process.is_alive():
        os.kill(pid, number)


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        why = ", most likely because memory ran out" if -code == signal.SIGKILL else ""
        return f"its process was killed by {name}{why}"
    return f"its process exited with code {code}"
