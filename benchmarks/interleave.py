"""Measure training programs on one machine in turns: each runs alone for a while, and the others are stopped.

All sides start together, so that they compile at the same time. A side that has finished its warm-up is stopped (SIGSTOP) until
its turn. Turns are short, so a disturbance of the machine affects all sides. A side logs a line of JSON with `step` and `tokens`
every few steps; only the time between two lines of the same turn counts.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Mark(NamedTuple):
    """A log line and the time it was seen."""

    time: float
    step: int
    tokens: int


class Side:
    """One program and its log."""

    def __init__(self, name: str, command: list[str], log: Path, output: Path) -> None:
        self.name = name
        self.marks: list[Mark] = []
        self.turns: list[list[Mark]] = []
        self._log = log
        self._output = output
        self._read = 0
        self._began = time.perf_counter()
        self.ready_after = 0.0
        with output.open("w") as stream:
            # Its own process group: its loader processes are stopped with it.
            self._process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True)

    def look(self) -> None:
        """Read new log lines."""
        if self._process.poll() is not None:
            raise SystemExit(f"{self.name} failed:\n{self._output.read_text()[-4000:]}")
        lines = self._log.read_text().split("\n")[:-1] if self._log.exists() else []
        now = time.perf_counter()
        records, self._read = [json.loads(line) for line in lines[self._read :]], len(lines)
        self.marks += [Mark(now, record["step"], record["tokens"]) for record in records if "tokens" in record]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program and its child processes."""
        os.killpg(self._process.pid, number)

    def warm(self, steps: int) -> bool:
        """Whether the warm-up is done; records how long it took."""
        self.look()
        done = bool(self.marks) and self.marks[-1].step >= steps
        if done:
            self.ready_after = time.perf_counter() - self._began
        return done

    def turn(self, seconds: float) -> None:
        """Run alone until `seconds` have passed between the first new log line and the last."""
        before = len(self.marks)
        self.signal(signal.SIGCONT)
        # The first line after a stop ends an interval that includes the stop, so it only starts the clock.
        while len(self.marks) < before + 2 or self.marks[-1].time - self.marks[before].time < seconds:
            time.sleep(0.01)
            self.look()
        self.signal(signal.SIGSTOP)
        self.turns.append(self.marks[before:])

    def end(self) -> None:
        """Stop the program as Ctrl-C does and wait for it."""
        self.signal(signal.SIGCONT)
        self._process.send_signal(signal.SIGINT)
        self._process.wait()

    def kill(self) -> None:
        """Kill the program if it is still running."""
        if self._process.poll() is None:
            self.signal(signal.SIGKILL)

    def figures(self, checkpoint_every: int) -> dict[str, float]:
        """Speed over all turns, and the cost of a checkpoint."""
        intervals = [(a, b) for turn in self.turns for a, b in pairwise(turn)]
        seconds = sum(b.time - a.time for a, b in intervals)
        steps = sum(b.step - a.step for a, b in intervals)
        tokens = sum(b.tokens - a.tokens for a, b in intervals)
        # Few intervals contain a checkpoint: its cost is how much longer they take than the median.
        step = float(np.median([(b.time - a.time) / (b.step - a.step) for a, b in intervals]))
        # A step is logged before its checkpoint is written.
        saving = [(a, b) for a, b in intervals if (a.step - 1) // checkpoint_every < (b.step - 1) // checkpoint_every]
        extra = [(b.time - a.time) - step * (b.step - a.step) for a, b in saving]
        speeds = [(turn[-1].tokens - turn[0].tokens) / (turn[-1].time - turn[0].time) for turn in self.turns]
        return {
            "tokens_per_second": tokens / seconds,
            "tokens_per_second_steps_alone": tokens / steps / step,
            "slowest_turn": min(speeds),
            "fastest_turn": max(speeds),
            "checkpoints": len(extra),
            "checkpoint_seconds": float(np.mean(extra)) if extra else 0.0,
            "tokens_per_update": tokens / steps,
            "updates": steps,
            "seconds": seconds,
            "start_seconds": self.ready_after,
        }


class Meeting:
    """Synchronise several runs of a benchmark: none measures before all are warm, and only one side of all runs at a time."""

    def __init__(self, folder: Path, runs: int) -> None:
        self._folder = folder
        self._runs = runs
        folder.mkdir(parents=True, exist_ok=True)

    def wait(self, point: str) -> None:
        """Wait until all runs have reached this point."""
        (self._folder / f"{os.getpid()}.{point}").touch()
        while len(list(self._folder.glob(f"*.{point}"))) < self._runs:
            time.sleep(0.05)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Have the machine to this run."""
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def interleave(
    sides: list[Side], *, warmup_steps: int, seconds: float, rounds: int, meeting: Meeting | None = None
) -> None:
    """Warm up all sides, give each `rounds` turns that last `seconds` in total, and stop them."""
    try:
        waiting = list(sides)
        while waiting:
            for side in list(waiting):
                if side.warm(warmup_steps):
                    side.signal(signal.SIGSTOP)
                    waiting.remove(side)
            time.sleep(0.01)
        if meeting:
            meeting.wait("warm")
        for _ in range(rounds):
            for side in sides:
                with meeting.alone() if meeting else nullcontext():
                    side.turn(seconds / rounds)
        if meeting:
            meeting.wait("measured")  # stopping a side is work that would disturb the others
        for side in sides:
            side.end()
    finally:
        for side in sides:
            side.kill()
