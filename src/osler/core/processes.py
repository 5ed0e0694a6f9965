"""Run independent tasks on the cores of this machine."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from typing import TypeVar

from osler.core.console import progress
from osler.core.errors import OslerError

Task = TypeVar("Task")

# Libraries that start threads when they are loaded must not do so in a process that is forked, and a GPU must not be opened there.
_BEFORE_A_FORK = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}


def run_all(function: Callable[[Task], None], tasks: Sequence[Task], *, workers: int, label: str) -> None:
    """Call `function` on every task; the first failure, in task order, ends the run."""
    count = min(workers or cores(), len(tasks))
    with progress(label, total=len(tasks)) as bar:
        if count <= 1:
            for task in tasks:
                function(task)
                bar.advance()
            return
        # Spawned, not forked: a forked child could inherit locks held by threads of Arrow or of the tokenizer.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(count, mp_context=context, initializer=_end_with_parent)
        try:
            for future in [pool.submit(function, task) for task in tasks]:
                future.result()
                bar.advance()
        except BrokenProcessPool:
            raise OslerError(
                "a worker process ended early, most likely for want of memory",
                fix="Run again with workers = 1 and it continues where it stopped; a script of your own that starts the "
                "stage needs its `if __name__ == '__main__':` line",
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def with_modules(modules: Sequence[str]) -> BaseContext:
    """Worker processes that all need the same large modules: forked from a server that does nothing but load them, once.

    The server keeps the environment in which the first of them was started; a worker that needs another is given it.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(modules))
    with _environment(_BEFORE_A_FORK):
        forkserver.ensure_running()
    return context


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


def cores() -> int:
    """The cores this process may use, where the system tells them apart from those the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever: end it instead."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent.sentinel,), daemon=True).start()


def _exit_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
