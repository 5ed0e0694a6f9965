"""Where every run stands: status.json of each, a lock that a live run holds, and what became of it all.

A run that was killed leaves "running" behind, but not its lock: it is taken for waiting.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from osler.core.errors import writing
from osler.core.files import write_json

State = Literal["waiting", "running", "done", "failed"]
_LOCK = ".running"


@dataclass(frozen=True)
class RunStatus:
    """What status.json of a run says."""

    state: State = "waiting"
    reason: str | None = None
    """Why it failed; never document text."""
    attempts: int = 0
    seconds: float = 0.0
    """Of the work that was finished, the evaluation included."""
    device: str | None = None
    peak_memory: int | None = None
    """Bytes on a GPU, where one was used."""
    processes: int = 1
    """Processes that it was trained with, each on a GPU of its own where there are GPUs."""

    def changed(self, **values: Any) -> RunStatus:
        """A copy with some fields replaced."""
        return replace(self, **values)

    def write(self, folder: Path) -> None:
        """Write status.json."""
        write_json(folder / "status.json", asdict(self))


def read_status(folder: Path) -> RunStatus:
    """The status a run's folder holds; a missing or damaged one is that of a run that waits."""
    try:
        values = json.loads((folder / "status.json").read_text(encoding="utf-8"))
        return RunStatus(**values)
    except (OSError, ValueError, TypeError):
        return RunStatus()


def state_of(folder: Path) -> RunStatus:
    """The status as it really is: "running" only while a process holds the run."""
    found = read_status(folder)
    return found.changed(state="waiting") if found.state == "running" and not _held(folder) else found


def is_trained(folder: Path) -> bool:
    """Whether the fine-tuning of a run is done."""
    return (folder / "bundle" / "manifest.json").is_file()


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Hold a run; where another process has it (a study that shares the store), wait until that one is through."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = open(folder / _LOCK, "a")  # noqa: SIM115 - closed below, which lets go of the lock
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        handle.close()


def _held(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return True  # a file system without locks: believe what is written
    finally:
        os.close(descriptor)
    return False


def time_left(
    costs: Mapping[str, float], seconds: Mapping[str, float], todo: Mapping[str, float], at_once: int
) -> float | None:
    """Seconds until all is done, by what the finished runs took for their expected length; None before the first."""
    known = {key: value for key, value in seconds.items() if value > 0 and key in costs}
    if not known:
        return None
    pace = sum(known.values()) / sum(costs[key] for key in known)
    remaining = [cost * pace for cost in todo.values()]
    # The end is never before the longest run that is left.
    return max(sum(remaining) / max(1, at_once), max(remaining, default=0.0))
