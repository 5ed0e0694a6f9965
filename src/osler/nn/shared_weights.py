"""Rebuild the integers of an int8 graph from the bundle's own weights when it is opened, so that they take no space.

The weights are in `model.safetensors` as bfloat16, for further training. The graph has the integers by name only; their scales are
stored separately.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_WEIGHTS, _SCALES = "model.safetensors", "scales.npz"


@dataclass(frozen=True)
class SharedWeight:
    """Where the integers of a graph come from: a tensor of the weights, divided by the scales and rounded."""

    tensor: str
    transposed: bool
    levels: int
    """The largest integer."""


def make_integers(weight: np.ndarray, scales: np.ndarray, levels: int) -> np.ndarray:
    """Integers of a weight, by the same operations that made the graph, so they agree to the last bit."""
    return np.asarray(np.clip(np.round(weight / scales), -levels, levels), dtype=np.int8)


def write_scales(folder: Path, scales: Mapping[str, np.ndarray]) -> None:
    """Store scales by the name of their tensor in the graph."""
    with open(folder / _SCALES, "wb") as stream:
        np.savez(stream, allow_pickle=False, **dict(scales))


def shared_files(folder: Path) -> list[Path]:
    """Files that the integers are made from."""
    return [folder / _WEIGHTS, folder / _SCALES]


def read_shared(folder: Path, shared: Mapping[str, SharedWeight]) -> dict[str, np.ndarray]:
    """Return the tensors that a graph lacks, by name: the integers X.int8 and their scales X.scale."""
    with np.load(folder / _SCALES, allow_pickle=False) as stored:
        found = {name: stored[name] for name in stored.files}
    weights = _Bfloat16(folder / _WEIGHTS)
    for name, source in shared.items():
        weight = weights[source.tensor]
        scales = found[name.removesuffix(".int8") + ".scale"]
        found[name] = make_integers(weight.T if source.transposed else weight, scales, source.levels)
    return found


class _Bfloat16:
    """Tensors of a safetensors file as float32. The library's reader for numpy does not know bfloat16."""

    def __init__(self, path: Path) -> None:
        with open(path, "rb") as stream:
            self._bytes = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        size = int.from_bytes(self._bytes[:8], "little")
        self._header: dict[str, Any] = json.loads(self._bytes[8 : 8 + size])
        self._start = 8 + size

    def __getitem__(self, name: str) -> np.ndarray:
        entry = self._header[name]
        if entry["dtype"] != "BF16":
            raise ValueError(f"{name} is {entry['dtype']}, not BF16")
        start, end = entry["data_offsets"]
        halves = np.frombuffer(self._bytes, dtype="<u2", count=(end - start) // 2, offset=self._start + start)
        # A bfloat16 is the upper half of a float32.
        return (halves.astype(np.uint32) << 16).view(np.float32).reshape(entry["shape"])
