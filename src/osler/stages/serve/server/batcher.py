"""Micro-batches across requests.

Every request runs the same engine as the command line, in a thread of its own. Only the encoder passes meet: a `MicroBatcher`
stands where the bundle's runner was, gathers the windows that the requests want computed, and computes those of several
requests in one pass. A long document therefore never holds up a short one for more than a pass, and whatever the engine
learns to do (relations, attributes, pairs) is batched without knowing it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np

from osler.artifacts.runner import Advance, Runner
from osler.tasks.instances.base import Instance

T = TypeVar("T")


class CancelledRequestError(Exception):
    """The client is gone, or waited too long: nobody reads the answer."""


class BusyError(Exception):
    """Too many requests are waiting."""

    def __init__(self, retry_after: int) -> None:
        super().__init__()
        self.retry_after = retry_after


class StoppingError(Exception):
    """The service is about to end and takes no new work."""


class OverdueError(Exception):
    """The work took longer than allowed."""


class Ticket:
    """One request on its way through the batcher; another thread may cancel it."""

    def __init__(self) -> None:
        self.cancelled = False
        self._wake: Callable[[], None] | None = None

    def cancel(self) -> None:
        self.cancelled = True
        if self._wake:
            self._wake()


_TICKET: ContextVar[Ticket | None] = ContextVar("ticket", default=None)


@dataclass(eq=False)
class _Job:
    """The windows of one call of `outputs`: those from `taken` on have not been handed out yet."""

    instances: Sequence[Instance]
    heads: tuple[str, ...]
    ticket: Ticket | None
    results: dict[str, list[np.ndarray]]
    tokens: list[int]
    """Tokens before each window, and of all."""
    taken: int = 0
    finished: int = 0
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def key(self) -> tuple[tuple[str, ...], int | None]:
        """Windows with the same key can share a pass: the same heads, and as many marked tokens."""
        marks = self.instances[0].marks
        return self.heads, None if marks is None else len(marks)

    @property
    def waiting(self) -> int:
        """Tokens that have not been handed out yet."""
        return self.tokens[-1] - self.tokens[self.taken]

    @property
    def over(self) -> bool:
        return self.error is not None or self.finished == len(self.instances)

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.done.set()


@dataclass(frozen=True)
class Pass:
    """What one encoder pass held."""

    tokens: int
    windows: int
    requests: int
    seconds: float


_Part = tuple[_Job, range]


class MicroBatcher:
    """A runner that computes the windows of several threads together. One thread does the computing."""

    def __init__(
        self,
        runner: Runner,
        *,
        tokens: int,
        wait: float,
        observe: Callable[[Pass], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Compute at most `tokens` in a pass, and wait at most `wait` seconds for requests that are being prepared."""
        self._runner, self._budget, self._wait = runner, tokens, wait
        self._observe, self._clock = observe or (lambda _: None), clock
        self._changed = threading.Condition()
        self._jobs: list[_Job] = []
        self._tasks: deque[Callable[[], None]] = deque()
        self._open = 0
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="osler-batcher", daemon=True)
        self._thread.start()

    def __getattr__(self, name: str) -> Any:
        """Whatever else a runner offers is the runner's own."""
        return getattr(self._runner, name)

    def transitions(self, head: str) -> np.ndarray | None:
        return self._runner.transitions(head)

    @contextmanager
    def request(self, ticket: Ticket) -> Iterator[None]:
        """What this thread computes until the end of the block belongs to one request."""
        ticket._wake = self._notify
        token = _TICKET.set(ticket)
        with self._changed:
            self._open += 1
        try:
            yield
        finally:
            _TICKET.reset(token)
            with self._changed:
                self._open -= 1
                self._changed.notify_all()

    def outputs(
        self, instances: Sequence[Instance], heads: Sequence[str], advance: Advance | None = None
    ) -> dict[str, list[np.ndarray]]:
        """Compute these windows, together with those of other threads."""
        results: dict[str, list[np.ndarray]] = {head: [np.empty(0)] * len(instances) for head in heads}
        if not instances:
            return results
        own = threading.current_thread() is self._thread
        before = [0, *accumulate(instance.length for instance in instances)]
        job = _Job(instances, tuple(heads), _TICKET.get(), results, before)
        with self._changed:
            if self._closed and not own:
                raise RuntimeError("the batcher is closed")
            self._jobs.append(job)
            self._changed.notify_all()
        while own and not job.done.is_set():
            self._next_pass()
        job.done.wait()
        if job.error is not None:
            raise job.error
        if advance:
            advance(len(instances))
        return results

    @property
    def waiting_tokens(self) -> int:
        """Tokens that wait for a pass."""
        with self._changed:
            return sum(job.waiting for job in self._jobs)

    def close(self) -> None:
        """Finish what waits, then end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def submit(self, work: Callable[..., T], *arguments: Any) -> Future[T]:
        """Do some work in the thread that computes.

        For a request that is alone: handing its windows to another thread and waiting for it would take longer than need be. Windows
        of requests that come in the meantime are computed with its own.
        """
        future: Future[T] = Future()

        def task() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work(*arguments))
                except BaseException as error:
                    future.set_exception(error)

        with self._changed:
            if self._closed:
                raise RuntimeError("the batcher is closed")
            self._tasks.append(task)
            self._changed.notify_all()
        return future

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._tasks or self._closed)
                if not self._jobs and not self._tasks:
                    return
                task = self._tasks.popleft() if self._tasks else None
            if task:
                task()
            else:
                self._next_pass()

    def _next_pass(self) -> None:
        with self._changed:
            self._gather()
            parts = self._take()
        if parts:
            self._compute(parts)

    def _gather(self) -> None:
        """Wait a moment for company, but only while a request is being prepared: one that is alone never waits."""
        until = self._clock() + self._wait
        while not self._closed:
            left = until - self._clock()
            waiting = len({id(job.ticket) for job in self._jobs if job.ticket})
            full = sum(job.waiting for job in self._jobs) >= self._budget
            if left <= 0 or full or waiting >= self._open:
                return
            self._changed.wait(left)

    def _take(self) -> list[_Part]:
        """Choose the windows of the next pass, a fair share from each request, oldest first.

        Requests that still have windows left go to the end of the line.
        """
        for job in self._jobs:
            if job.ticket and job.ticket.cancelled:
                job.fail(CancelledRequestError())
        self._jobs = [job for job in self._jobs if not job.done.is_set()]
        if not self._jobs:
            return []
        alike = [job for job in self._jobs if job.key == self._jobs[0].key]
        share = self._budget // len(alike)
        taken = {id(job): job.taken for job in alike}
        left = self._budget
        for allowance in (share, self._budget):  # the second round gives away what the first left over
            for job in alike:
                first = job.tokens[taken[id(job)]]
                while job.taken < len(job.instances) and (cost := job.instances[job.taken].length) <= left:
                    used = job.tokens[job.taken] - first
                    if used and used + cost > allowance:
                        break
                    job.taken += 1
                    left -= cost
        parts = [(job, range(taken[id(job)], job.taken)) for job in alike if job.taken > taken[id(job)]]
        if not parts:  # a window longer than the budget
            alike[0].taken += 1
            parts = [(alike[0], range(alike[0].taken - 1, alike[0].taken))]
        served = {id(job) for job, _ in parts}
        again = [job for job in self._jobs if id(job) in served and job.taken < len(job.instances)]
        self._jobs = [job for job in self._jobs if id(job) not in served] + again
        return parts

    def _compute(self, parts: list[_Part]) -> None:
        began = self._clock()
        try:
            self._run(parts)
        except Exception as error:
            if len(parts) == 1:
                parts[0][0].fail(error)
            else:  # one bad request must not take the others with it
                for part in parts:
                    self._compute([part])
                return
        instances = [job.instances[n] for job, numbers in parts for n in numbers]
        requests = len(Counter(id(job.ticket or job) for job, _ in parts))
        self._observe(Pass(sum(i.length for i in instances), len(instances), requests, self._clock() - began))
        with self._changed:
            for job, numbers in parts:
                job.finished += len(numbers)
                if job.over:
                    if job.error and job in self._jobs:
                        self._jobs.remove(job)
                    job.done.set()

    def _run(self, parts: list[_Part]) -> None:
        heads = parts[0][0].heads
        instances = [job.instances[number] for job, numbers in parts for number in numbers]
        outputs = self._runner.outputs(instances, heads)
        for head in heads:
            rows = iter(outputs[head])
            for job, numbers in parts:
                for number in numbers:
                    job.results[head][number] = next(rows)
