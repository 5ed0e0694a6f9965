"""Randomness for text: one stream for each (seed, keys), and a fixed share of every vocabulary for each split."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TypeVar

from osler.clinic.labels import Split
from osler.core.seeding import derive

T = TypeVar("T")


class Dice:
    """Draws from one stream; only `random()` is used below it, whose sequence Python keeps the same in every version.

    A numpy generator costs ten times as much for one number, and a note takes hundreds of them.
    """

    __slots__ = ("roll",)

    def __init__(self, seed: int, *keys: str | int) -> None:
        self.roll = random.Random(derive(seed, "clinic", *keys)).random

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.roll() < probability

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, all alike."""
        return options[int(self.roll() * len(options))]

    def between(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        return low + int(self.roll() * (high - low + 1))

    def sample(self, options: Sequence[T], count: int) -> list[T]:
        """`count` different options (or all of them, where there are fewer) in random order."""
        pool = list(options)
        size = len(pool)
        count = min(count, size)
        for place in range(count):
            other = place + int(self.roll() * (size - place))
            pool[place], pool[other] = pool[other], pool[place]
        return pool[:count]

    def weighted(self, options: Sequence[T], weights: Sequence[float]) -> T:
        """One of the options, each as likely as its weight."""
        totals = list(accumulate(weights))
        mark = self.roll() * totals[-1]
        for option, total in zip(options, totals, strict=True):
            if mark < total:
                return option
        return options[-1]


def bucket(word: str, salt: str) -> int:
    """A fixed number from 0 to 99 for a word: the same for every seed, so that splits stay apart across seeds."""
    return int.from_bytes(hashlib.blake2b(f"{salt}:{word}".encode(), digest_size=4).digest(), "little") % 100


def share(words: Iterable[str], split: Split, salt: str, common: int = 0) -> tuple[str, ...]:
    """The words a split may use: `common` percent are for all, the rest is parted 60/15/25 over train, dev and test."""
    kept = []
    for word in words:
        place = bucket(word, salt)
        if place < common:
            kept.append(word)
            continue
        fraction = (place - common) / (100 - common)
        owner = "train" if fraction < 0.6 else "dev" if fraction < 0.75 else "test"
        if owner == split:
            kept.append(word)
    return tuple(kept)
