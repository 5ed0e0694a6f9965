"""Counts and times of the service, in Prometheus' text format.

Written by hand: three kinds of metric and a page of text cost less than a dependency, and labels can only be names chosen by
the service itself, never anything from a request.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TOKENS = (64, 256, 1_024, 4_096, 16_384, 65_536)
COMPANY = (1, 2, 4, 8, 16, 32, 64)

_Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counters, gauges and histograms by name. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._help: dict[str, tuple[str, str]] = {}
        self._counts: dict[str, dict[_Labels, float]] = defaultdict(lambda: defaultdict(float))
        self._buckets: dict[str, Sequence[float]] = {}
        self._observed: dict[str, dict[_Labels, list[float]]] = defaultdict(dict)
        self._gauges: dict[str, Callable[[], float]] = {}

    def counter(self, name: str, text: str) -> None:
        self._help[name] = ("counter", text)

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        self._help[name] = ("gauge", text)
        self._gauges[name] = read

    def histogram(self, name: str, text: str, buckets: Sequence[float]) -> None:
        self._help[name] = ("histogram", text)
        self._buckets[name] = buckets

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        with self._lock:
            self._counts[name][tuple(labels.items())] += amount

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Add one value to a histogram."""
        buckets = self._buckets[name]
        with self._lock:
            row = self._observed[name].setdefault(tuple(labels.items()), [0.0] * (len(buckets) + 2))
            for place, limit in enumerate(buckets):
                row[place] += value <= limit
            row[-2] += 1
            row[-1] += value

    def text(self) -> str:
        """Render all metrics in the format that Prometheus scrapes."""
        lines = []
        with self._lock:
            for name, (kind, text) in self._help.items():
                lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
                if kind == "gauge":
                    lines.append(f"{name} {_number(self._gauges[name]())}")
                lines += [f"{name}{_shown(labels)} {_number(count)}" for labels, count in self._counts[name].items()]
                for labels, row in self._observed[name].items():
                    limits = [*(f"{limit:g}" for limit in self._buckets[name]), "+Inf"]
                    for limit, count in zip(limits, row, strict=False):
                        lines.append(f"{name}_bucket{_shown((*labels, ('le', limit)))} {_number(count)}")
                    lines += [
                        f"{name}_sum{_shown(labels)} {row[-1]:.6f}",
                        f"{name}_count{_shown(labels)} {_number(row[-2])}",
                    ]
        return "\n".join(lines) + "\n"


def _shown(labels: _Labels) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels) + "}" if labels else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.6f}"


def resident_bytes() -> float:
    """Memory of this process in bytes, if the system provides it (Linux); else 0."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0
    return pages * 4096.0


def give_back_memory() -> None:
    """Let the C library return freed memory to the system, where it can (glibc).

    Requests of very different sizes leave gaps in its heap that it does not return by itself, so that the process grows over
    hours.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
