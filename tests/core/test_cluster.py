"""What a node checks before its first task, and how failures of tasks reach the user. With real Ray: test_run_ray.py of the corpus."""

from __future__ import annotations

import errno
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from osler.core import cluster
from osler.core.cluster import RayPool, join, ray_pool
from osler.core.errors import InputError, MissingExtraError, OslerError
from osler.core.files import locked


class FakeRay:
    """Runs tasks in this process, one by one, the last that was begun first."""

    exceptions = SimpleNamespace(RayError=RuntimeError, RayTaskError=KeyError)

    def __init__(self) -> None:
        self.began: list[int] = []
        self.most = 0
        self.cancelled: list[int] = []
        self._calls: list[Callable[[], Any]] = []

    def remote(self, function: Callable[..., Any]) -> Any:
        def begin(*arguments: Any) -> int:
            self.began.append(arguments[-1])
            self._calls.append(lambda: function(*pickle.loads(pickle.dumps(arguments))))
            return len(self._calls) - 1

        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=begin))

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}

    def wait(self, running: Sequence[int], num_returns: int) -> tuple[list[int], list[int]]:
        self.most = max(self.most, len(running))
        return [running[-1]], list(running[:-1])

    def get(self, reference: int) -> Any:
        return pickle.loads(pickle.dumps(self._calls[reference]()))

    def cancel(self, reference: int) -> None:
        self.cancelled.append(self.began[reference])


def fail_at_some(task: int) -> None:
    if task in (2, 3):
        raise InputError("not valid JSON", where=f"notes.jsonl:{task}", fix="Correct the line")
    if task == 7:
        raise ValueError("Mrs Smith has a cough")
    if task == 8:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def origin(tmp_path: Path) -> cluster._Origin:
    return cluster._Origin(tmp_path, tmp_path, (("numpy", cluster._version("numpy")), ("no-such-package", None)))


@pytest.fixture
def pool(origin: cluster._Origin, monkeypatch: pytest.MonkeyPatch) -> RayPool:
    monkeypatch.setattr(cluster, "_check_node", lambda origin: None)
    return RayPool(FakeRay(), origin)


def test_the_error_of_the_first_task_that_fails_is_raised_and_later_ones_are_not_begun(pool: RayPool) -> None:
    with pytest.raises(InputError, match=r"^notes.jsonl:2: not valid JSON. Correct the line.$") as caught:
        pool.run_all(fail_at_some, list(range(100)), label="clean")
    assert (caught.value.where, caught.value.fix) == ("notes.jsonl:2", "Correct the line")
    assert pool.ray.began == [0, 1, 2, 3]


def test_so_many_tasks_run_at_the_same_time(pool: RayPool) -> None:
    pool.run_all(abs, list(range(20)), label="clean")
    assert sorted(pool.ray.began) == list(range(20))
    assert pool.ray.most == 4  # each of the two cores has one waiting
    one = replace(pool, ray=FakeRay(), workers=1)
    one.run_all(abs, [1, 2, 3], label="clean")
    assert one.ray.most == 1


def test_an_unexpected_error_names_its_place_and_never_its_message(pool: RayPool) -> None:
    with pytest.raises(
        OslerError, match=r"internal error on the node .* \(ValueError at .*test_cluster.py:\d+\)"
    ) as caught:
        pool.run_all(fail_at_some, [7], label="clean")
    assert "Smith" not in str(caught.value)
    with pytest.raises(OslerError, match="the disk is full"):
        pool.run_all(fail_at_some, [8], label="clean")


def test_a_task_that_is_lost_again_and_again_stops_the_run(pool: RayPool, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(reference: int) -> None:
        raise RuntimeError("a worker died")

    monkeypatch.setattr(pool.ray, "get", lost)
    with pytest.raises(OslerError, match=r"ended early 4 times \(RuntimeError\).*Run the same command again"):
        pool.run_all(abs, [1], label="clean")


def test_an_interrupt_cancels_what_is_running(pool: RayPool, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(running: Sequence[int], num_returns: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pool.ray, "wait", stop)
    with pytest.raises(KeyboardInterrupt):
        pool.run_all(abs, list(range(9)), label="clean")
    assert pool.ray.cancelled == pool.ray.began == [0, 1, 2, 3]


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Callable[[cluster._Origin], None]:
    """The check of a node, which changes the folder of the process."""
    monkeypatch.chdir("/")
    return cluster._check_node.__wrapped__


def test_a_node_must_see_the_folder_its_locks_and_the_same_versions(origin, check, tmp_path: Path) -> None:
    lock = tmp_path / cluster._LOCK
    with pytest.raises(OslerError, match=r"does not see this folder\. Choose an --out on a file system") as caught:
        check(origin)
    assert caught.value.where == str(tmp_path)
    lock.touch()
    with pytest.raises(OslerError, match="does not see locks in this folder"):
        check(origin)
    with locked(lock, tmp_path):
        check(origin)
        assert Path.cwd() == tmp_path
        other = replace(origin, versions=(("osler", cluster._version("osler")), ("numpy", "1.0")))
        with pytest.raises(OslerError, match=r"has numpy \S+, and the run was started with 1\.0"):
            check(other)


def test_a_cluster_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"RAY_ADDRESS": "127.0.0.1:1"})
    with pytest.raises(OslerError, match=r"^127.0.0.1:1: cannot join the Ray cluster .* Check RAY_ADDRESS"):
        join(SimpleNamespace(is_initialized=lambda: False))
    assert join(SimpleNamespace(is_initialized=lambda: True)) is False


def test_without_ray_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"osler\[ray\]"), ray_pool(tmp_path):
        pass
