"""Where numbers go while training: a JSONL file always, TensorBoard where it is installed.

Wall-clock values sit apart under `clock`: all else in a record repeats bit for bit when a run is repeated or resumed.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from osler.core.errors import writing
from osler.core.extras import available
from osler.core.files import write_atomic

Number = int | float | None


class Trackers:
    """The logs of one run, under `logs/` in its folder; opened at the step that training continues from."""

    def __init__(self, folder: Path, step: int) -> None:
        logs = folder / "logs"
        self._path = logs / "log.jsonl"
        with writing(logs):
            logs.mkdir(parents=True, exist_ok=True)
            _truncate(self._path, step)
            self._file = open(self._path, "a", encoding="utf-8")  # noqa: SIM115 - closed by close()
            self._board = _tensorboard(logs / "tensorboard", step)

    def record(self, kind: str, step: int, values: Mapping[str, Number], clock: Mapping[str, float]) -> None:
        """Write one record of a kind ("train", "eval") at a step."""
        plain = {name: _finite(value) for name, value in values.items()}
        line: dict[str, Any] = {"kind": kind, "step": step, **plain, "clock": dict(clock)}
        with writing(self._path):
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        if self._board is not None:
            for name, value in {**plain, **clock}.items():
                if value is not None:
                    self._board.add_scalar(f"{kind}/{name}", value, step)

    def sync(self) -> None:
        """Make what is written survive a power cut: a checkpoint must not be ahead of its log."""
        with writing(self._path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close every log."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def read_history(folder: Path) -> list[dict[str, Any]]:
    """The records of a run, in order, without their wall-clock values."""
    path = folder / "logs" / "log.jsonl"
    if not path.exists():
        return []
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{name: value for name, value in record.items() if name != "clock"} for record in records]


def _truncate(path: Path, step: int) -> None:
    """Drop records of steps that will be done again, and a last line that a kill cut short."""
    if not path.exists():
        return
    before = path.read_text(encoding="utf-8", errors="replace")
    kept = "".join(line for line in before.splitlines(keepends=True) if _belongs(line, step))
    if kept != before:
        write_atomic(path, kept)


def _belongs(line: str, step: int) -> bool:
    try:
        return line.endswith("\n") and int(json.loads(line)["step"]) <= step
    except (ValueError, KeyError, TypeError):
        return False


def _tensorboard(folder: Path, step: int) -> Any:
    if not available("tensorboard"):
        return None
    from torch.utils.tensorboard import SummaryWriter

    # purge_step hides what an interrupted run wrote beyond the checkpoint.
    return SummaryWriter(str(folder), purge_step=step + 1 if folder.exists() else None)


def _finite(value: Number) -> Number:
    return value if value is None or math.isfinite(value) else None
