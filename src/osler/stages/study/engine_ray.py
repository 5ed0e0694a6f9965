"""Runs as Ray tasks on a cluster. The store and the inputs must be on a file system that every node can read and write.

Ray schedules by the resources of a task: CPU threads, and the share of a GPU that its memory takes. Ray does not retry tasks:
a failure is recorded like any other, and the next `osler study run` resumes what was killed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from osler.artifacts.run import RunStatus
from osler.core.cluster import join
from osler.core.extras import require
from osler.stages.study import runner
from osler.stages.study.engines import GPU_SHARE, visible_gpus, wanted_threads
from osler.stages.study.runner import RunJob

_POLL_SECONDS = 1.0
_GRACE_SECONDS = 20.0
_THREADS = 2
"""CPU threads of a run if neither its settings nor OMP_NUM_THREADS set them."""


class RayEngine:
    """Jobs on the cluster at RAY_ADDRESS, or on a local one that ends with the study."""

    def __init__(self, *, limit: int = 0, processes: int = 1) -> None:
        self._ray: Any = require("ray", "ray")
        self._joined = join(self._ray)
        self._limit = limit
        self._processes = processes
        self._steps = (runner.train, runner.score)
        self._jobs: dict[Any, RunJob] = {}
        self._task = self._ray.remote(max_retries=0)(runner.attempt)
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        self._cpus = max((int(node.get("CPU", 0)) for node in nodes), default=1) or 1
        self._gpus = sum(node.get("GPU", 0) for node in nodes)
        self._all_cpus = sum(int(node.get("CPU", 0)) for node in nodes) or 1
        # Ask a node with a GPU for its GPU memory.
        ask = self._ray.remote(num_gpus=0.01, num_cpus=0)(_gpu_memory)
        self._gpu_memory = int(self._ray.get(ask.remote())) if self._gpus else 0

    @property
    def at_once(self) -> int:
        return self._limit or max(1, self._all_cpus // min(_THREADS, self._cpus))

    def take(self, job: RunJob) -> bool:
        """Hand a job to Ray, which starts it when a node has room. Only few jobs queue there, to keep their order."""
        if len(self._jobs) >= self.at_once:
            return False
        settings = job.spec.runtime
        threads = min(int(settings.get("threads") or wanted_threads() or _THREADS), self._cpus)
        options: dict[str, Any] = {"num_cpus": min(threads * self._processes, self._cpus), "name": job.spec.label}
        if self._gpus and settings.get("device") != "cpu":
            options["num_gpus"] = self._processes if self._processes > 1 else self._share(job.memory)
        reference = self._task.options(**options).remote(replace(job, threads=threads), *self._steps)
        self._jobs[reference] = job
        return True

    def wait(self) -> Sequence[tuple[RunJob, RunStatus]]:
        ready, _ = self._ray.wait(list(self._jobs), num_returns=1, timeout=_POLL_SECONDS)
        found = []
        for reference in ready:
            job = self._jobs.pop(reference)
            try:
                status: RunStatus = self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                status = runner.record_failure(job, f"its Ray task ended early ({type(error).__name__})")
            found.append((job, status))
        return found

    def close(self) -> None:
        """Stop unfinished jobs and disconnect from the cluster."""
        for reference in self._jobs:
            self._ray.cancel(reference, force=False)
        if self._jobs:
            self._ray.wait(list(self._jobs), num_returns=len(self._jobs), timeout=_GRACE_SECONDS)
        self._jobs = {}
        if self._joined:
            self._ray.shutdown()

    def _share(self, memory: int) -> float:
        """Return the share of a GPU that a run needs, rounded up to hundredths."""
        if not memory or not self._gpu_memory:
            return 1.0
        return min(1.0, math.ceil(100 * memory / (GPU_SHARE * self._gpu_memory)) / 100)


def _gpu_memory() -> int:
    return min((gpu.memory for gpu in visible_gpus()), default=0)
