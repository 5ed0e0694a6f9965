"""Batches under a token budget, every example once an epoch, in a seeded order.

Examples that are laid end to end need not be alike, so theirs are drawn at random: a batch is a fair sample of the task, as in the
papers' own training, and all batches have about as many tokens. Examples that are padded are put together by length.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from osler.core.errors import RecipeError
from osler.core.seeding import generator

# Examples are sorted by length within chunks of this many batches: enough to make lengths alike, few enough to keep the
# company of an example changing from epoch to epoch, also in a small task.
_CHUNK = 10


def packed_batches(
    lengths: Sequence[int], budget: int, seed: int, epoch: int, max_sequences: int | None = None
) -> list[list[int]]:
    """Cut shuffled examples into batches of at most `budget` tokens and `max_sequences` examples."""
    sizes = _checked(lengths, budget)
    limit = max_sequences if max_sequences is not None else len(sizes)
    batches: list[list[int]] = []
    tokens = budget
    for index in generator(seed, "batches", epoch).permutation(len(sizes)).tolist():
        if tokens + sizes[index] > budget or len(batches[-1]) == limit:
            batches.append([])
            tokens = 0
        batches[-1].append(index)
        tokens += int(sizes[index])
    return batches


def padded_batches(
    lengths: Sequence[int], budget: int, seed: int, epoch: int, max_sequences: int | None = None
) -> list[list[int]]:
    """Cut examples into batches of like length whose padded size, longest times count, is at most `budget` tokens.

    Batches hold at most `max_sequences` examples and come in shuffled order.
    """
    sizes = _checked(lengths, budget)
    if not len(sizes):
        return []
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


def _checked(lengths: Sequence[int], budget: int) -> np.ndarray:
    """The lengths, none of which is over the budget."""
    sizes = np.asarray(lengths, dtype=np.int64)
    longest = int(sizes.max(initial=0))
    if longest > budget:
        raise RecipeError(
            f"a batch may hold {budget} tokens, but one example has {longest}",
            fix=f"Raise the token budget to {longest} or more, or use shorter windows",
        )
    return sizes


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
