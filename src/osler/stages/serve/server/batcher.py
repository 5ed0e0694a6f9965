"""A single thread that does the work of all requests, in batches of those that wait together.

Records of several requests are annotated as one batch, as on the command line: word splitting, encoder passes and decoding are
shared, and no threads contend for Python while a pass is launched. Each request has a fair share of a batch, so that a request
with many records does not hold up one with a single record.

A request with a very long text has a thread of its own. Only its encoder passes run here, one at a time and in turn with the
batches, so that it never holds up a short request for more than a pass.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

from osler.artifacts.runner import Advance, Runner, Waiting
from osler.tasks.instances.base import Instance

T = TypeVar("T")
R = TypeVar("R")
Work = Callable[[Sequence[T]], Sequence[R]]
"""Maps items to as many results. Each result depends on its own item alone."""
CHARACTERS = 4
"""Approximate characters per token."""
_AT_ONCE = 64
"""Items of a long request to process together."""
_LEAST = 16
"""Cost of an item in characters on top of its length, so that thousands of empty items are not one batch."""

_DEEPEST = 4
"""Maximum nesting of batches that run between the passes of a large one."""


class CancelledRequestError(Exception):
    """The client left or timed out, so nobody reads the answer."""


class BusyError(Exception):
    """Too many requests are waiting."""

    def __init__(self, retry_after: int) -> None:
        super().__init__()
        self.retry_after = retry_after


class StoppingError(Exception):
    """The service is shutting down and takes no new work."""


class OverdueError(Exception):
    """The work took longer than allowed."""


@dataclass(eq=False)
class Job(Generic[T, R]):
    """The work of one request. Setting `cancelled` aborts it, at the latest after the current pass."""

    work: Work[T, R]
    items: Sequence[T]
    sizes: Sequence[int]
    """Characters per item."""
    cancelled: bool = False
    taken: int = 0
    """Number of items put into a batch so far."""
    results: dict[int, R] = field(default_factory=dict)
    """Results by number of the item. Later items may finish first, between the passes of a large batch."""
    future: Future[list[R]] = field(default_factory=Future)
    """Done when no work is left for the request, even if nobody waits for it any more."""

    def __post_init__(self) -> None:
        self.future.set_running_or_notify_cancel()  # from here on, it only ends when the work does

    def check(self) -> None:
        if self.cancelled:
            raise CancelledRequestError

    def run(self) -> None:
        """Do the work in the calling thread, some items at a time."""
        try:
            for start in range(0, len(self.items), _AT_ONCE):
                self.check()
                some = range(start, min(start + _AT_ONCE, len(self.items)))
                self.keep(some, _done(self.work, self.items[some.start : some.stop]))
        except BaseException as error:
            self.end(error)

    def keep(self, numbers: range, found: Iterable[R]) -> None:
        """Store the results of some items. The last of them end the job."""
        self.results.update(zip(numbers, found, strict=False))
        if len(self.results) == len(self.items):
            self.end()

    def end(self, error: BaseException | None = None) -> None:
        """End the job, unless it has already failed or been cancelled."""
        if self.future.done():
            return
        if error is None:
            self.future.set_result([self.results[number] for number in range(len(self.items))])
        else:
            self.future.set_exception(error)


@dataclass(frozen=True)
class Pass:
    """Statistics of one encoder pass."""

    tokens: int
    requests: int
    seconds: float


_Part = tuple[Job[Any, Any], range]


class MicroBatcher:
    """Runs jobs in a thread of its own. Also serves as the runner of the bundle: every pass is computed in that thread."""

    def __init__(
        self,
        runner: Runner,
        *,
        tokens: int,
        observe: Callable[[Pass], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`tokens` is the approximate number of tokens to compute at once."""
        self._runner, self._budget = runner, tokens
        self._observe, self._clock = observe or (lambda _: None), clock
        self._changed = threading.Condition()
        self._jobs: list[Job[Any, Any]] = []
        self._turns: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._company = 1
        """Number of requests in the current batch."""
        self._depth = 0
        self._closed = False
        self._owner = threading.local()
        self._thread = threading.Thread(target=self._live, name="osler-batcher", daemon=True)
        self._thread.start()

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to the wrapped runner."""
        return getattr(self._runner, name)

    def transitions(self, head: str) -> np.ndarray | None:
        return self._runner.transitions(head)

    def add(self, job: Job[Any, Any]) -> None:
        """Queue a job. It shares batches with other jobs of the same work."""
        if not job.items:
            job.future.set_result([])
            return
        with self._changed:
            self._check_open()
            self._jobs.append(job)
            self._changed.notify_all()

    def run(self, job: Job[Any, Any]) -> None:
        """Run a job in the calling thread. Its passes take turns with those of other jobs."""
        self._owner.job = job
        try:
            job.run()
        finally:
            self._owner.job = None

    def outputs(
        self, instances: Sequence[Instance], heads: Sequence[str], advance: Advance | None = None
    ) -> dict[str, list[np.ndarray]]:
        """Compute these windows. Between passes, other batches and threads with long jobs have their turn."""
        results: dict[str, list[np.ndarray]] = {head: [] for head in heads}
        own = threading.current_thread() is self._thread
        job: Job[Any, Any] | None = getattr(self._owner, "job", None)
        requests = self._company if own else 1
        # A batch has about as many tokens as fit into a pass. It is only split if it turns out much larger, as relations may make it.
        for number, windows in enumerate(self._cut(instances, 2 * self._budget if own else self._budget)):
            if own and number:
                self._let_others()
            if job:
                job.check()
            compute = partial(self._pass, windows, heads, requests, advance)
            for head, rows in (compute() if own else self._in_turn(compute)).items():
                results[head] += rows
        return results

    def begin(self, instances: Sequence[Instance], heads: Sequence[str]) -> Waiting:
        """Nothing is started ahead: windows are computed when it is their turn."""
        return partial(self.outputs, instances, heads)

    def close(self) -> None:
        """Finish waiting work, then stop the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the batcher is closed")

    def _pass(
        self, instances: Sequence[Instance], heads: Sequence[str], requests: int, advance: Advance | None
    ) -> dict[str, list[np.ndarray]]:
        began = self._clock()
        found = self._runner.outputs(instances, heads, advance)
        tokens = sum(instance.length for instance in instances)
        self._observe(Pass(tokens, requests, self._clock() - began))
        return found

    def _cut(self, instances: Sequence[Instance], tokens: int) -> Iterator[list[Instance]]:
        """Split windows, in order, into groups of at most `tokens` tokens, with at least one window each."""
        windows: list[Instance] = []
        left = tokens
        for instance in instances:
            if windows and instance.length > left:
                yield windows
                windows, left = [], tokens
            windows.append(instance)
            left -= instance.length
        if windows:
            yield windows

    def _in_turn(self, call: Callable[[], R]) -> R:
        """Run a call in the batcher's thread when it is its turn, and wait for the result."""
        future: Future[R] = Future()
        with self._changed:
            self._check_open()
            self._turns.append((call, future))
            self._changed.notify_all()
        return future.result()

    def _live(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._turns or self._closed)
                if not self._jobs and not self._turns:
                    return
            self._step()

    def _step(self) -> None:
        """Process one batch of waiting jobs, then compute a pass of a long job."""
        with self._changed:
            parts = self._take()
            turn = self._turns.popleft() if self._turns else None
        self._answer(parts)
        if turn:
            _fulfil(*turn)

    def _let_others(self) -> None:
        """Between the passes of a large batch, process waiting work."""
        if self._depth < _DEEPEST:
            company, self._depth = self._company, self._depth + 1
            self._step()
            self._company, self._depth = company, self._depth - 1

    def _take(self) -> list[_Part]:
        """Choose the next batch: items of the same work, with a fair share for each job, oldest first.

        Jobs with items left go to the end of the queue.
        """
        for job in [job for job in self._jobs if job.cancelled]:
            self._jobs.remove(job)
            job.end(CancelledRequestError())
        alike = [job for job in self._jobs if job.work == self._jobs[0].work]
        left = budget = CHARACTERS * self._budget
        before = {id(job): job.taken for job in alike}
        for allowance in (budget // max(1, len(alike)), budget):  # the second round hands out what the first left over
            for job in alike:
                used = 0
                for size in islice(job.sizes, job.taken, None):
                    cost = size + _LEAST
                    if left < budget and (cost > left or (used and used + cost > allowance)):
                        break
                    job.taken += 1
                    used += cost
                    left -= cost
        parts = [(job, range(before[id(job)], job.taken)) for job in alike if job.taken > before[id(job)]]
        served = {id(job) for job, _ in parts}
        again = [job for job, _ in parts if job.taken < len(job.items)]
        self._jobs = [job for job in self._jobs if id(job) not in served] + again
        return parts

    def _answer(self, parts: Sequence[_Part]) -> None:
        """Do the work of several jobs together. If it fails, retry in halves: one bad request must not fail the others."""
        if not parts:
            return
        self._company = len(parts)
        work = parts[0][0].work
        try:
            found = iter(_done(work, [job.items[number] for job, numbers in parts for number in numbers]))
        except BaseException as error:
            if len(parts) == 1:
                self._fail(parts[0][0], error)
                return
            middle = len(parts) // 2
            self._answer(parts[:middle])
            self._answer(parts[middle:])
            self._company = len(parts)
            return
        for job, numbers in parts:
            job.keep(numbers, islice(found, len(numbers)))

    def _fail(self, job: Job[Any, Any], error: BaseException) -> None:
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)
        job.end(error)


def _done(work: Work[T, R], items: Sequence[T]) -> Sequence[R]:
    found = work(items)
    if len(found) != len(items):
        raise RuntimeError("work has another number of results than items")
    return found


def _fulfil(call: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)
