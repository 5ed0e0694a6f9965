"""Random draws for text: one independent stream per seed and keys."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

from osler.core.seeding import derive

T = TypeVar("T")


class Dice:
    """One stream of draws, all made from `random.random`, whose sequence is the same in every version of Python.

    A numpy generator is ten times slower for single numbers, and a note takes hundreds of them.
    """

    __slots__ = ("roll",)

    def __init__(self, seed: int, *keys: str | int) -> None:
        self.roll = random.Random(derive(seed, "clinic", *keys)).random

    def chance(self, probability: float) -> bool:
        return self.roll() < probability

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self.roll() * len(options))]

    def between(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        return low + int(self.roll() * (high - low + 1))

    def sample(self, options: Sequence[T], count: int) -> list[T]:
        """`count` different options in random order, or all of them if there are fewer."""
        pool = list(options)
        count = min(count, len(pool))
        for index in range(count):
            other = index + int(self.roll() * (len(pool) - index))
            pool[index], pool[other] = pool[other], pool[index]
        return pool[:count]

    def weighted(self, options: Sequence[T], weights: Sequence[float]) -> T:
        totals = list(accumulate(weights))
        mark = self.roll() * totals[-1]
        return next((option for option, total in zip(options, totals, strict=True) if mark < total), options[-1])
