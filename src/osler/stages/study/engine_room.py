"""How many runs fit: the cores of this machine, and the memory of its GPUs, each shared by several small runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass

from osler.core.processes import cores

_GPU_SHARE = 0.9
"""Of the free memory; the rest is for what an estimate misses."""


@dataclass(frozen=True)
class Place:
    """Where runs are done: the CPU, a GPU, or as many GPUs as a run has processes."""

    visible: str | None
    """For CUDA_VISIBLE_DEVICES; None leaves it alone."""
    memory: int
    """Bytes that are free."""


@dataclass(frozen=True)
class Room:
    """The places, how many runs are done at once, and the CPU threads of each."""

    places: tuple[Place, ...]
    workers: int
    threads: int
    gated: bool
    """Whether a run waits until its place has memory for it; not where a person said how many."""


def room(workers: int, *, runs: int, processes: int = 1, cpu_only: bool = False, smallest: int = 0) -> Room:
    """The room on this machine for so many runs; `workers` 0 chooses.

    On a GPU as many as its memory holds, at most one a core, and no more than end the study in as many rounds: runs that share a GPU
    slow each other down (20 runs on 16 cores: 10 at a time). `smallest` is what the smallest run is expected to need.
    Without one, half as many as cores, each with its share of them.
    """
    gpus = [] if cpu_only else visible_gpus()
    available = cores()
    if gpus:
        places = _together(gpus, processes)
        fitting = sum(max(1, int(place.memory * _GPU_SHARE) // smallest) if smallest else 1 for place in places)
        most = max(1, min(fitting, available, runs))
        chosen = workers or -(-runs // -(-runs // most))
    else:
        places = (Place(None, _free_memory()),)
        chosen = workers or max(1, available // (2 * processes))
    chosen = max(1, min(chosen, runs))
    return Room(places, chosen, max(1, available // (chosen * processes)), gated=workers == 0)


def fits(place: Place, used: int, wanted: int) -> bool:
    """Whether a run has room beside those that are there; the first always has."""
    return used == 0 or used + wanted <= place.memory * _GPU_SHARE


def visible_gpus() -> list[Place]:
    """The GPUs this process may use, with their free memory, without taking any of it."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is not None and not allowed.strip().strip("-1"):
        return []
    if shutil.which("nvidia-smi") is None:
        return _asked_of_torch()
    query = ["nvidia-smi", "--query-gpu=index,uuid,memory.free", "--format=csv,noheader,nounits"]
    done = subprocess.run(query, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        return _asked_of_torch()
    return listed_gpus(done.stdout, allowed)


def listed_gpus(listing: str, allowed: str | None) -> list[Place]:
    """The GPUs of a listing by nvidia-smi (index, uuid, free MiB) that CUDA_VISIBLE_DEVICES allows, in its order."""
    found: dict[str, Place] = {}
    for line in listing.strip().splitlines():
        index, uuid, free = (part.strip() for part in line.split(","))
        found[index] = found[uuid] = Place(index, int(free) << 20 if free.isdigit() else 0)
    if allowed is None:
        return [place for name, place in found.items() if name == place.visible]
    return [found[name.strip()] for name in allowed.split(",") if name.strip() in found]


def _asked_of_torch() -> list[Place]:
    import torch

    if not torch.cuda.is_available():
        return []
    return [Place(str(index), torch.cuda.mem_get_info(index)[0]) for index in range(torch.cuda.device_count())]


def _together(gpus: list[Place], processes: int) -> tuple[Place, ...]:
    """GPUs in sets of as many as a run has processes; the memory of a set is that of its fullest."""
    size = min(processes, len(gpus))
    sets = [gpus[first : first + size] for first in range(0, len(gpus) - size + 1, size)]
    return tuple(
        Place(",".join(gpu.visible or "" for gpu in chunk), min(gpu.memory for gpu in chunk)) for chunk in sets
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
