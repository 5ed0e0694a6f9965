"""Engines that do runs, and how many runs fit at the same time."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from osler.artifacts.run import RunStatus
from osler.core.processes import cores
from osler.stages.study import runner
from osler.stages.study.runner import RunJob

GPU_SHARE = 0.9
"""Share of a GPU's memory that runs may fill; the rest covers underestimates."""


class Engine(Protocol):
    """Does jobs: in this process, in worker processes, or on a cluster."""

    @property
    def at_once(self) -> int:
        """Approximate number of jobs that run at the same time."""

    def take(self, job: RunJob) -> bool:
        """Start a job, or return False if there is no room for it now."""

    def wait(self) -> Sequence[tuple[RunJob, RunStatus]]:
        """Wait briefly and return the jobs that ended."""

    def close(self) -> None:
        """Stop unfinished jobs, which a later study resumes, and release all resources."""


class InlineEngine:
    """Does one job after the other in this process."""

    at_once = 1

    def __init__(self) -> None:
        self._job: RunJob | None = None

    def take(self, job: RunJob) -> bool:
        if self._job is not None:
            return False
        self._job = job
        return True

    def wait(self) -> Sequence[tuple[RunJob, RunStatus]]:
        job, self._job = self._job, None
        return [] if job is None else [(job, runner.attempt(job, runner.train, runner.score))]

    def close(self) -> None: ...


@dataclass(frozen=True)
class RunSlot:
    """Devices for a run: the CPU, a GPU, or as many GPUs as a run has processes."""

    visible: str | None
    """Value for CUDA_VISIBLE_DEVICES; None leaves it unchanged."""
    memory: int
    """Free memory in bytes."""


@dataclass(frozen=True)
class Room:
    """The slots, the number of concurrent runs, and the CPU threads of each run."""

    slots: tuple[RunSlot, ...]
    workers: int
    threads: int
    gated: bool
    """Whether a run waits for free memory in its slot; False if the user set the number of workers."""


def room(workers: int, *, runs: int, processes: int = 1, cpu_only: bool = False, smallest: int = 0) -> Room:
    """Decide how to fit this many runs on this machine; `workers` 0 chooses. `smallest` is the memory of the smallest run.

    On GPUs, as many run at once as fit in memory, at most one per core, spread evenly over the rounds this takes, because runs that
    share a GPU slow each other down (20 runs on 16 cores: 10 at a time). Without a GPU, there is one run per two cores. The cores are
    divided among the runs, unless OMP_NUM_THREADS sets the threads of each.
    """
    gpus = [] if cpu_only else visible_gpus()
    available = cores()
    if gpus:
        slots = _together(gpus, processes)
        fitting = sum(max(1, int(slot.memory * GPU_SHARE) // smallest) if smallest else 1 for slot in slots)
        most = max(1, min(fitting, available, runs))
        chosen = workers or -(-runs // -(-runs // most))
    else:
        slots = (RunSlot(None, _free_memory()),)
        chosen = workers or max(1, available // (2 * processes))
    chosen = max(1, min(chosen, runs))
    threads = wanted_threads() or max(1, available // (chosen * processes))
    return Room(slots, chosen, threads, gated=workers == 0)


def wanted_threads() -> int | None:
    """Return OMP_NUM_THREADS, or None if it is not a number. Of a list (one value per nesting level), return the first."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() and int(first) > 0 else None


def fits(slot: RunSlot, used: int, wanted: int) -> bool:
    """Whether a run fits next to those in its slot; the first always does."""
    return used == 0 or used + wanted <= slot.memory * GPU_SHARE


def visible_gpus() -> list[RunSlot]:
    """Return the GPUs this process may use with their free memory, without allocating any."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is not None and not allowed.strip().strip("-1"):
        return []
    if shutil.which("nvidia-smi") is not None:
        query = ["nvidia-smi", "--query-gpu=index,uuid,memory.free", "--format=csv,noheader,nounits"]
        done = subprocess.run(query, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode == 0:
            return listed_gpus(done.stdout, allowed)
    import torch

    if not torch.cuda.is_available():
        return []
    return [RunSlot(str(index), torch.cuda.mem_get_info(index)[0]) for index in range(torch.cuda.device_count())]


def listed_gpus(listing: str, allowed: str | None) -> list[RunSlot]:
    """Parse nvidia-smi output (index, uuid, free MiB) into the GPUs that CUDA_VISIBLE_DEVICES allows, in its order."""
    found: dict[str, RunSlot] = {}
    for line in listing.strip().splitlines():
        index, uuid, free = (part.strip() for part in line.split(","))
        found[index] = found[uuid] = RunSlot(index, int(free) << 20 if free.isdigit() else 0)
    if allowed is None:
        return [slot for name, slot in found.items() if name == slot.visible]
    return [found[name.strip()] for name in allowed.split(",") if name.strip() in found]


def _together(gpus: list[RunSlot], processes: int) -> tuple[RunSlot, ...]:
    """Group GPUs into sets of one per process of a run; a set has the free memory of its fullest GPU."""
    size = min(processes, len(gpus))
    sets = [gpus[first : first + size] for first in range(0, len(gpus) - size + 1, size)]
    return tuple(
        RunSlot(",".join(gpu.visible or "" for gpu in chunk), min(gpu.memory for gpu in chunk)) for chunk in sets
    )


def _free_memory() -> int:
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
