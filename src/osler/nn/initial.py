"""Initial weights that depend on a seed and a name alone, never on what was drawn before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from osler.core.seeding import derive


@contextmanager
def seeded(seed: int, *keys: str | int) -> Iterator[None]:
    """Draw from torch's CPU generator as if it were fresh for (seed, keys), and leave it as it was."""
    state = torch.get_rng_state()
    torch.default_generator.manual_seed(derive(seed, *keys))
    try:
        yield
    finally:
        torch.set_rng_state(state)
