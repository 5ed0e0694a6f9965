"""Seed, save and restore every random number generator.

`generator` derives an independent stream from a seed and a list of keys. Draws from one stream never depend on draws from
another, so the order of samples depends only on the position and resuming needs no replay.
"""

from __future__ import annotations

import hashlib
import random
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np


def derive(seed: int, *keys: str | int) -> int:
    """Derive a 64-bit seed from `seed` and the keys, the same in every process and Python version."""
    digest = hashlib.blake2b(repr((int(seed), *keys)).encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def generator(seed: int, *keys: str | int) -> np.random.Generator:
    """Return an independent numpy generator for (seed, keys)."""
    return np.random.Generator(np.random.PCG64(derive(seed, *keys)))


def seed_everything(seed: int) -> None:
    """Seed Python, numpy and, if imported, torch on every device."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)


@dataclass(frozen=True)
class RngState:
    """The state of every generator. `plain` can be saved as JSON, `tensors` as safetensors."""

    plain: dict[str, Any]
    tensors: dict[str, Any] = field(default_factory=dict)


def snapshot() -> RngState:
    """Return the state of Python's, numpy's and torch's generators."""
    version, internal, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    plain: dict[str, Any] = {
        "python": [version, list(internal), gauss],
        "numpy": [str(name), np.asarray(keys).tolist(), int(position), int(has_gauss), float(cached)],
    }
    tensors: dict[str, Any] = {}
    torch = sys.modules.get("torch")
    if torch is not None:
        tensors["torch"] = torch.get_rng_state()
        if torch.cuda.is_available():
            for device, state in enumerate(torch.cuda.get_rng_state_all()):
                tensors[f"cuda.{device}"] = state
    return RngState(plain, tensors)


def restore(state: RngState) -> None:
    """Restore every generator to a snapshot."""
    version, internal, gauss = state.plain["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, position, has_gauss, cached = state.plain["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), position, has_gauss, cached))
    torch = sys.modules.get("torch")
    if torch is not None and "torch" in state.tensors:
        torch.set_rng_state(state.tensors["torch"].cpu())
        for device in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
            if f"cuda.{device}" in state.tensors:
                torch.cuda.set_rng_state(state.tensors[f"cuda.{device}"].cpu(), device)
