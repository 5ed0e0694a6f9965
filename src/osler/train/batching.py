"""Batches under a token budget: examples of like length together, every example once an epoch, in a seeded order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from osler.core.errors import RecipeError
from osler.core.seeding import generator

# Examples are sorted by length within chunks of this many batches: enough to make lengths alike, few enough to keep the
# company of an example changing from epoch to epoch.
_CHUNK = 50


def token_budget_batches(
    lengths: Sequence[int], budget: int, seed: int, epoch: int, max_sequences: int | None = None
) -> list[list[int]]:
    """Cut examples into batches whose padded size, longest times count, is at most `budget` tokens.

    What fits padded also fits packed. Batches hold at most `max_sequences` examples and come in shuffled order.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    if not len(sizes):
        return []
    longest = int(sizes.max())
    if longest > budget:
        raise RecipeError(
            f"a batch may hold {budget} tokens, but one example has {longest}",
            fix=f"Raise the token budget to {longest} or more, or use shorter windows",
        )
    usual = max(1, budget // max(1, int(sizes.mean())))
    limit = max_sequences if max_sequences is not None else len(sizes)
    stream = generator(seed, "batches", epoch)
    shuffled = stream.permutation(len(sizes))
    chunk = _CHUNK * min(usual, limit)
    batches: list[list[int]] = []
    for start in range(0, len(shuffled), chunk):
        part = shuffled[start : start + chunk]
        ordered = part[np.argsort(sizes[part], kind="stable")]
        batches.extend(_cut(ordered.tolist(), sizes, budget, limit))
    return [batches[index] for index in stream.permutation(len(batches))]


def _cut(ordered: list[int], sizes: np.ndarray, budget: int, limit: int) -> list[list[int]]:
    """Fill batches from the longest down, so that each one's first example sets its padded length."""
    batches: list[list[int]] = []
    room = 0
    for index in reversed(ordered):
        if room == 0:
            batches.append([])
            room = min(limit, budget // max(1, int(sizes[index])))
        batches[-1].append(index)
        room -= 1
    return batches
