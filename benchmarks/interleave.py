"""Measure training programs beside each other on one machine: each runs alone for a while, in turns, while the others are stopped.

All sides start at once, so that they compile at the same time; a side that has done its warm-up is stopped (SIGSTOP) until
its turn. What disturbs the machine for a minute then disturbs all sides. A side writes a line of JSON with `step` and `tokens`
to a log after every few steps; only whole stretches between two lines of one turn count.
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
    """A line of a log, with the time at which it was seen."""

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
            # A group of its own: its loader processes are stopped with it.
            self._process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True)

    def look(self) -> None:
        """Read new lines."""
        if self._process.poll() is not None:
            raise SystemExit(f"{self.name} failed:\n{self._output.read_text()[-4000:]}")
        lines = self._log.read_text().split("\n")[:-1] if self._log.exists() else []
        now = time.perf_counter()
        records, self._read = [json.loads(line) for line in lines[self._read :]], len(lines)
        self.marks += [Mark(now, record["step"], record["tokens"]) for record in records if "tokens" in record]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program and all it started."""
        os.killpg(self._process.pid, number)

    def warm(self, steps: int) -> bool:
        """Whether the warm-up is done; the time that took is kept."""
        self.look()
        done = bool(self.marks) and self.marks[-1].step >= steps
        if done:
            self.ready_after = time.perf_counter() - self._began
        return done

    def turn(self, seconds: float) -> None:
        """Run alone until `seconds` lie between the first new line and the last."""
        before = len(self.marks)
        self.signal(signal.SIGCONT)
        # The first line after a stop ends a stretch with the stop in it.
        while len(self.marks) < before + 2 or self.marks[-1].time - self.marks[before].time < seconds:
            time.sleep(0.01)
            self.look()
        self.signal(signal.SIGSTOP)
        self.turns.append(self.marks[before:])

    def end(self) -> None:
        """Let the program end as after Ctrl-C."""
        self.signal(signal.SIGCONT)
        self._process.send_signal(signal.SIGINT)
        self._process.wait()

    def kill(self) -> None:
        """End whatever is left of it."""
        if self._process.poll() is None:
            self.signal(signal.SIGKILL)

    def figures(self, checkpoint_every: int) -> dict[str, float]:
        """Speed over all turns, and what a checkpoint costs."""
        stretches = [(a, b) for turn in self.turns for a, b in pairwise(turn)]
        seconds = sum(b.time - a.time for a, b in stretches)
        updates = sum(b.step - a.step for a, b in stretches)
        tokens = sum(b.tokens - a.tokens for a, b in stretches)
        # A checkpoint falls into few stretches: what those take longer than the median one is its cost.
        step = float(np.median([(b.time - a.time) / (b.step - a.step) for a, b in stretches]))
        # The line of a step is written before its checkpoint.
        saving = [(a, b) for a, b in stretches if (a.step - 1) // checkpoint_every < (b.step - 1) // checkpoint_every]
        extra = [(b.time - a.time) - step * (b.step - a.step) for a, b in saving]
        speeds = [(turn[-1].tokens - turn[0].tokens) / (turn[-1].time - turn[0].time) for turn in self.turns]
        return {
            "tokens_per_second": tokens / seconds,
            "tokens_per_second_steps_alone": tokens / updates / step,
            "slowest_turn": min(speeds),
            "fastest_turn": max(speeds),
            "checkpoints": len(extra),
            "checkpoint_seconds": float(np.mean(extra)) if extra else 0.0,
            "tokens_per_update": tokens / updates,
            "updates": updates,
            "seconds": seconds,
            "start_seconds": self.ready_after,
        }


class Meeting:
    """Several runs of a benchmark that start at once: none measures before all are warm, and only one side of them runs at a time."""

    def __init__(self, folder: Path, runs: int) -> None:
        self._folder = folder
        self._runs = runs
        folder.mkdir(parents=True, exist_ok=True)

    def wait(self, point: str) -> None:
        """Say that this run has come to a point, and wait for the others to come there."""
        (self._folder / f"{os.getpid()}.{point}").touch()
        while len(list(self._folder.glob(f"*.{point}"))) < self._runs:
            time.sleep(0.05)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the machine."""
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def interleave(
    sides: list[Side], *, warmup_steps: int, seconds: float, rounds: int, meeting: Meeting | None = None
) -> None:
    """Warm all sides up, give each `rounds` turns that together last `seconds`, and end them."""
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
            meeting.wait("measured")  # ending a side is work that would disturb
        for side in sides:
            side.end()
    finally:
        for side in sides:
            side.kill()
