"""Runs in worker processes of this machine. A worker that is killed fails its run alone; another takes its place."""

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

from osler.core.console import console
from osler.core.processes import with_modules
from osler.stages.study.engines import Room, RunExecutor, RunJob, RunOutcome, RunSlot, attempt, failed, fits

_PATIENCE = 1.0
_LAST_WISH = 20.0
"""Seconds a run gets to write a checkpoint after Ctrl-C."""


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    place: int
    job: RunJob | None = None


class LocalEngine:
    """Workers that stay for many runs, each bound to its GPU; what they need is loaded once for all of them."""

    def __init__(self, runner: RunExecutor, space: Room) -> None:
        self._runner = runner
        self._room = space
        self._workers: list[_Worker] = []
        self._context = with_modules(runner.modules)

    @property
    def at_once(self) -> int:
        """The number of workers."""
        return self._room.workers

    def take(self, job: RunJob) -> bool:
        """Give a job to a free worker at a place with room for it."""
        busy = [worker for worker in self._workers if worker.job is not None]
        if len(busy) >= self._room.workers:
            return False
        place = self._place(job, busy)
        if place is None:
            return False
        free = next((worker for worker in self._workers if worker.job is None and worker.place == place), None)
        worker = free or self._hire(place)
        worker.job = replace(job, threads=self._room.threads)
        worker.pipe.send(worker.job)
        return True

    def wait(self) -> Sequence[tuple[RunJob, RunOutcome]]:
        """Outcomes of workers that sent one, or that are no more."""
        busy = [worker for worker in self._workers if worker.job is not None]
        if not busy:
            return []
        handles: dict[Any, _Worker] = {worker.pipe: worker for worker in busy}
        handles |= {worker.process.sentinel: worker for worker in busy}
        ended = {id(handles[handle]): handles[handle] for handle in wait(list(handles), timeout=_PATIENCE)}
        return [found for worker in ended.values() if (found := self._outcome(worker)) is not None]

    def close(self) -> None:
        """End all workers; a run under way may write a checkpoint first."""
        for worker in self._workers:
            if worker.job is not None:
                _signal(worker, signal.SIGTERM)
            worker.pipe.close()
        deadline = time.monotonic() + _LAST_WISH
        for worker in self._workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            _signal(worker, signal.SIGKILL)
            worker.process.join()
        self._workers = []

    def _outcome(self, worker: _Worker) -> tuple[RunJob, RunOutcome] | None:
        job = worker.job
        assert job is not None
        try:
            outcome: RunOutcome | None = worker.pipe.recv() if worker.pipe.poll() else None
        except (EOFError, OSError):
            outcome = None
        if outcome is None:
            if worker.process.is_alive() and not worker.pipe.poll():
                return None
            worker.process.join()
            outcome = failed(job, _death(worker.process.exitcode))
            # What the run itself started (torchrun) must not go on without it.
            _signal(worker, signal.SIGKILL)
            worker.pipe.close()
            self._workers.remove(worker)
        worker.job = None
        return job, outcome

    def _place(self, job: RunJob, busy: Sequence[_Worker]) -> int | None:
        """The place with the least on it where the job fits."""
        used = [0] * len(self._room.places)
        held = [0] * len(self._room.places)
        for worker in busy:
            assert worker.job is not None
            used[worker.place] += max(1, worker.job.memory)
            held[worker.place] += 1
        order = sorted(range(len(used)), key=lambda number: (held[number], used[number], number))
        for number in order:
            if not self._room.gated or fits(self._room.places[number], used[number], job.memory):
                return number
        return None

    def _hire(self, place: int) -> _Worker:
        # One worker a place may idle there; others must not pile up.
        for idle in [worker for worker in self._workers if worker.job is None]:
            if len(self._workers) >= self._room.workers:
                idle.pipe.close()
                idle.process.join(_LAST_WISH)
                self._workers.remove(idle)
        ours, theirs = self._context.Pipe()
        arguments = (theirs, self._runner, self._room.places[place], self._room.threads, dict(os.environ))
        process = self._context.Process(target=_work, args=arguments, daemon=False)  # type: ignore[attr-defined]
        process.start()
        theirs.close()
        worker = _Worker(process, ours, place)
        self._workers.append(worker)
        return worker


def _work(pipe: Connection, runner: RunExecutor, place: RunSlot, threads: int, environment: Mapping[str, str]) -> None:
    """A worker: take a job, do it, send what came of it, until the pipe is closed."""
    os.environ.clear()
    os.environ.update(environment)
    # A process group of its own: Ctrl-C reaches it through the parent, once, and what it starts dies with it.
    os.setpgrp()
    _end_with_parent()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if place.visible is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = place.visible
    console().quiet = True
    try:
        while True:
            job = pipe.recv()
            pipe.send(attempt(job, runner))
    except (EOFError, KeyboardInterrupt, BrokenPipeError):
        return


def _end_with_parent() -> None:
    """A worker whose parent was killed ends at once, and with it whatever it started: the run is continued by the next study."""
    parent = multiprocessing.parent_process()

    def watch(sentinel: int) -> None:
        wait([sentinel])
        os.killpg(0, signal.SIGKILL)

    if parent is not None:
        threading.Thread(target=watch, args=(parent.sentinel,), daemon=True).start()


def _signal(worker: _Worker, number: int) -> None:
    """Signal a worker's whole group; where it has not made one yet, the worker alone."""
    pid = worker.process.pid
    if pid is None:
        return
    try:
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
            return
    except ProcessLookupError:
        # The leader is gone; its group may not be.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)
        return
    if worker.process.is_alive():
        os.kill(pid, number)


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        why = ", most likely for want of memory" if -code == signal.SIGKILL else ""
        return f"its process was ended by {name}{why}"
    return f"its process ended with code {code}"
