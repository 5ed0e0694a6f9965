"""Run independent tasks in worker processes."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from typing import Protocol, TypeVar

from osler.core.console import progress
from osler.core.errors import OslerError

Task = TypeVar("Task")

# Before a fork, libraries must not start threads on import and nothing may open a GPU.
_BEFORE_A_FORK = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}


class Pool(Protocol):
    """Runs independent tasks, on this machine or on a cluster."""

    def run_all(self, function: Callable[[Task], None], tasks: Sequence[Task], *, label: str) -> None:
        """Call `function` on every task; the first failure, in task order, stops the run."""


@dataclass(frozen=True)
class LocalPool:
    """Runs tasks in worker processes on this machine, or in this process if there is only one worker."""

    workers: int = 0
    """Number of worker processes; 0 means one per core."""

    def run_all(self, function: Callable[[Task], None], tasks: Sequence[Task], *, label: str) -> None:
        count = min(self.workers or cores(), len(tasks))
        with progress(label, total=len(tasks)) as bar:
            if count <= 1:
                for task in tasks:
                    function(task)
                    bar.advance()
                return
            # Spawn rather than fork: a forked child could inherit locks held by threads of Arrow or of the tokenizer.
            context = multiprocessing.get_context("spawn")
            pool = ProcessPoolExecutor(count, mp_context=context, initializer=_end_with_parent)
            try:
                for future in [pool.submit(function, task) for task in tasks]:
                    future.result()
                    bar.advance()
            except BrokenProcessPool:
                raise OslerError(
                    "a worker process ended early, most likely because memory ran out",
                    fix="Run again with workers = 1 to resume where it stopped. If your own script starts the stage, "
                    "guard it with `if __name__ == '__main__':`",
                ) from None
            finally:
                pool.shutdown(cancel_futures=True)


def with_modules(modules: Sequence[str]) -> BaseContext:
    """Return a context whose workers fork from a server that has already imported these large modules.

    The server keeps the environment of the first call; pass other variables to a worker explicitly.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(modules))
    with _environment(_BEFORE_A_FORK):
        forkserver.ensure_running()
    return context


def cores() -> int:
    """Return the number of cores this process may use, or of all cores if the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in more}
    os.environ.update(more)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _end_with_parent() -> None:
    """Exit this worker if its parent is killed; otherwise it would wait for work forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent.sentinel,), daemon=True).start()


def _exit_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
