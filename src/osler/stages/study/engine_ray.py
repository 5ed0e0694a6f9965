"""Runs as Ray tasks on a cluster. The store and the inputs lie on a file system that every node sees.

Ray schedules by the resources a task names: CPU threads, and the share of a GPU that its memory takes. A task is not retried by
Ray: what fails is noted like any failure, what is killed is done again by the next `osler study run`.
"""

from __future__ import annotations

import json
import math
import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from osler.core.errors import OslerError
from osler.core.extras import require
from osler.stages.study.engines import RunExecutor, RunJob, RunOutcome, attempt, failed, visible_gpus

_PATIENCE = 1.0
_REACH = 10.0
_USUAL_THREADS = 2
_GPU_SHARE = 0.9


class RayEngine:
    """Jobs on the cluster of RAY_ADDRESS, or on a local one that ends with the study."""

    def __init__(self, runner: RunExecutor, *, limit: int = 0, processes: int = 1) -> None:
        self._ray: Any = require("ray", "ray")
        _join(self._ray)
        self._limit = limit
        self._processes = processes
        self._runner = self._ray.put(runner)
        self._jobs: dict[Any, RunJob] = {}
        self._task = self._ray.remote(max_retries=0)(_attempt)
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        self._cpus = max((int(node.get("CPU", 0)) for node in nodes), default=1) or 1
        self._gpus = sum(node.get("GPU", 0) for node in nodes)
        self._all_cpus = sum(int(node.get("CPU", 0)) for node in nodes) or 1
        self._gpu_memory = self._ask_gpu_memory() if self._gpus else 0

    @property
    def at_once(self) -> int:
        """Jobs the cluster has room for, or the limit that was set."""
        return self._limit or max(1, self._all_cpus // min(_USUAL_THREADS, self._cpus))

    def take(self, job: RunJob) -> bool:
        """Hand a job to Ray, which begins it when a node has room; no more than a few wait there, so that order is kept."""
        if len(self._jobs) >= self.at_once:
            return False
        settings = json.loads(job.spec.runtime)
        threads = min(int(settings.get("threads") or _USUAL_THREADS), self._cpus)
        options: dict[str, Any] = {"num_cpus": min(threads * self._processes, self._cpus), "name": job.spec.label}
        if self._gpus and settings.get("device") != "cpu":
            options["num_gpus"] = self._processes if self._processes > 1 else self._share(job.memory)
        reference = self._task.options(**options).remote(replace(job, threads=threads), self._runner)
        self._jobs[reference] = job
        return True

    def wait(self) -> Sequence[tuple[RunJob, RunOutcome]]:
        """Outcomes of tasks that ended, however they did."""
        ready, _ = self._ray.wait(list(self._jobs), num_returns=1, timeout=_PATIENCE)
        found = []
        for reference in ready:
            job = self._jobs.pop(reference)
            try:
                outcome: RunOutcome = self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                outcome = failed(job, f"its Ray task ended early ({type(error).__name__})")
            found.append((job, outcome))
        return found

    def close(self) -> None:
        """Stop what runs, and leave the cluster as it was found."""
        for reference in self._jobs:
            self._ray.cancel(reference, force=False)
        if self._jobs:
            self._ray.wait(list(self._jobs), num_returns=len(self._jobs), timeout=20 * _PATIENCE)
        self._jobs = {}
        self._ray.shutdown()

    def _share(self, memory: int) -> float:
        """The share of a GPU for a run, in hundredths."""
        if not memory or not self._gpu_memory:
            return 1.0
        return min(1.0, math.ceil(100 * memory / (_GPU_SHARE * self._gpu_memory)) / 100)

    def _ask_gpu_memory(self) -> int:
        """The memory of a GPU of the cluster, asked of a node that has one."""
        ask = self._ray.remote(num_gpus=0.01, num_cpus=0)(_gpu_memory)
        return int(self._ray.get(ask.remote()))


def _join(ray: Any) -> None:
    if ray.is_initialized():
        return
    address = os.environ.get("RAY_ADDRESS")
    if address and "RAY_AUTH_MODE" not in os.environ and (Path.home() / ".ray" / "auth_token").is_file():
        # A head started on a machine with a token asks for it, but a driver does not offer it unless told to.
        os.environ["RAY_AUTH_MODE"] = "token"
    try:
        host, _, port = (address or "").rpartition(":")
        if host and port.isdigit() and "//" not in host:
            # Ray itself would try for minutes.
            socket.create_connection((host, int(port)), _REACH).close()
        ray.init(address=address or "local", log_to_driver=False, include_dashboard=None if address else False)
    except (OSError, RuntimeError, ValueError) as error:
        raise OslerError(
            f"cannot join the Ray cluster ({type(error).__name__})",
            where=address or "a local cluster",
            fix="Check RAY_ADDRESS; a head that asks for a token needs RAY_AUTH_MODE=token and its token here too",
        ) from error


def _attempt(job: RunJob, runner: RunExecutor) -> RunOutcome:
    return attempt(job, runner)


def _gpu_memory() -> int:
    return min((gpu.memory for gpu in visible_gpus()), default=0)
