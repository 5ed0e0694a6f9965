from __future__ import annotations

import random

import numpy as np
import pytest

from osler.core.seeding import generator, restore, seed_everything, snapshot


def test_generators_depend_on_seed_and_every_key_only():
    assert generator(1, "a", 2).integers(1 << 60) == generator(1, "a", 2).integers(1 << 60)
    draws = {generator(*key).integers(1 << 60) for key in [(1,), (2,), (1, "a"), (1, "b"), (1, "a", 0), (1, "a", 1)]}
    assert len(draws) == 6


def test_restore_resets_every_generator():
    torch = pytest.importorskip("torch")
    seed_everything(3)
    random.gauss(0, 1)
    state = snapshot()
    first = (random.random(), random.gauss(0, 1), np.random.rand(), float(torch.rand(1)))
    restore(state)
    assert (random.random(), random.gauss(0, 1), np.random.rand(), float(torch.rand(1))) == first
