"""Join a Ray cluster and run independent tasks on its nodes.

A task is a function of osler called with paths, numbers and settings. It reads and writes on a file system that all nodes share.
Document text never passes through Ray, its object store or its logs.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from osler.core.console import progress
from osler.core.errors import OslerError, explain_system_error, place_of
from osler.core.extras import require
from osler.core.files import TEMPORARY, locked

Task = TypeVar("Task")

_CONNECT_SECONDS = 10.0
_RETRIES = 3
_LOCK = f".cluster{TEMPORARY}"


def join(ray: Any) -> bool:
    """Join the cluster at RAY_ADDRESS, or start a local one. Return False if this process has already joined one."""
    if ray.is_initialized():
        return False
    address = os.environ.get("RAY_ADDRESS")
    if address and "RAY_AUTH_MODE" not in os.environ and (Path.home() / ".ray" / "auth_token").is_file():
        # A head node started on a machine with a token requires it, but a driver sends it only in this mode.
        os.environ["RAY_AUTH_MODE"] = "token"
    # By default, Ray retries a task that runs out of memory forever, and sends usage statistics about a cluster that it starts.
    os.environ.setdefault("RAY_task_oom_retries", str(_RETRIES))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        host, _, port = (address or "").rpartition(":")
        if host and port.isdigit() and "//" not in host:
            # Fail fast: Ray itself would retry for minutes.
            socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
        ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level=logging.WARNING,
            include_dashboard=None if address else False,
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise OslerError(
            f"cannot join the Ray cluster ({type(error).__name__})",
            where=address or "a local cluster",
            fix="Check RAY_ADDRESS. If the head node asks for a token, set RAY_AUTH_MODE=token and give the token here too",
        ) from error
    return True


@contextmanager
def ray_pool(folder: Path, *, workers: int = 0, packages: Sequence[str] = ()) -> Iterator[RayPool]:
    """Join a cluster for tasks that write to `folder`, and leave it afterwards.

    Before its first task, every worker process checks that it sees the same folder and has the same versions of osler and of
    `packages`, because the output depends on them.
    """
    ray = require("ray", "ray")
    joined = join(ray)
    try:
        with locked(folder / _LOCK, folder):
            versions = tuple((name, _version(name)) for name in ("osler", *packages))
            yield RayPool(ray, _Origin(folder, Path.cwd(), versions), workers)
    finally:
        if joined:
            ray.shutdown()


@dataclass(frozen=True)
class _Origin:
    """The folder and versions of the driver process, which every node must match."""

    folder: Path
    started_in: Path
    versions: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class RayPool:
    """Runs tasks on the cores of a cluster. Ray retries the tasks of a lost node; any other failure stops the run."""

    ray: Any
    origin: _Origin
    workers: int = 0
    """Number of concurrent tasks; 0 means one per core of the cluster."""

    def run_all(self, function: Callable[[Task], None], tasks: Sequence[Task], *, label: str) -> None:
        """Call `function` on every task; the first failure, in task order, stops the run."""
        ray = self.ray
        begin = ray.remote(_do).options(name=label, num_cpus=1, max_retries=_RETRIES, scheduling_strategy="SPREAD")
        # By default, keep some tasks queued in Ray, so that no core idles and an autoscaling cluster grows.
        at_once = self.workers or 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        waiting = iter(enumerate(tasks))
        running: dict[Any, int] = {}
        failed: dict[int, OslerError] = {}
        with progress(label, total=len(tasks)) as bar:
            try:
                while True:
                    for number, task in islice(waiting, 0 if failed else at_once - len(running)):
                        running[begin.remote(self.origin, function, task)] = number
                    if not running:
                        break
                    [done], _ = ray.wait(list(running), num_returns=1)
                    number = running.pop(done)
                    if error := self._error(done, label):
                        failed[number] = error
                        # Earlier tasks may still fail; the error of the first task in order is shown.
                        for later in [other for other in running if running[other] > number]:
                            ray.cancel(later)
                            del running[later]
                    bar.advance()
            finally:
                for rest in running:
                    ray.cancel(rest)
        if failed:
            raise failed[min(failed)]

    def _error(self, done: Any, label: str) -> OslerError | None:
        exceptions = self.ray.exceptions
        try:
            error: OslerError | None = self.ray.get(done)
            return error
        except exceptions.RayTaskError as problem:
            return OslerError(
                f"a node of the cluster cannot begin a task ({type(problem.cause).__name__})",
                where=label,
                fix="Install the same version of osler on every node",
            )
        except exceptions.RayError as problem:
            return OslerError(
                f"a task on the cluster ended early {_RETRIES + 1} times ({type(problem).__name__})",
                where=label,
                fix="Most likely memory ran out on a node. Run the same command again to resume where it stopped, "
                "with fewer workers or nodes with more memory",
            )


def _do(origin: _Origin, function: Callable[[Task], None], task: Task) -> OslerError | None:
    """Run a task on a node and return its error: Ray stores and prints a raised error, whose message may quote a document."""
    try:
        _check_node(origin)
        function(task)
    except OslerError as error:
        return error
    except Exception as error:
        return explain_system_error(error) or OslerError(
            f"internal error on the node {socket.gethostname()} ({type(error).__name__} at {place_of(error)})",
            fix="Please report this line. The error's own message is hidden because it may quote a document; "
            "OSLER_DEBUG=1 with the engine local shows it",
        )
    return None


@lru_cache(maxsize=1)
def _check_node(origin: _Origin) -> None:
    """Raise an error if this node does not share the folder, its locks and the package versions of the driver."""
    node = socket.gethostname()
    with suppress(OSError):  # paths in a recipe may be relative; a missing input raises its own error
        os.chdir(origin.started_in)
    shared = "Choose an --out on a file system that all nodes of the cluster share"
    lock = origin.folder / _LOCK
    if not lock.is_file():
        raise OslerError(f"the node {node} does not see this folder", where=origin.folder, fix=shared)
    with open(lock, "ab") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # held by the driver, as it should be
        else:
            problem = f"the node {node} does not see locks in this folder, so two nodes could write to one file"
            raise OslerError(problem, where=origin.folder, fix=f"{shared}, with locks between nodes")
    for name, version in origin.versions:
        if (here := _version(name)) != version:
            raise OslerError(
                f"the node {node} has {name} {here or 'not installed'}, and the run was started with {version or 'none'}",
                fix="Install the same versions on every node: what is written depends on them",
            )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
