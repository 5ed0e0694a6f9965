"""Order in which tasks take turns, and the number of turns per task, as pure functions of (seed, epoch, epochs).

A task with fewer batches than turns starts over; each pass visits all of its batches once, in a new order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from osler.core.seeding import generator

Turn = tuple[str, int]


@dataclass(frozen=True)
class Mix:
    """Order of one epoch as (task, batch index), and the number of turns per task."""

    order: tuple[Turn, ...]
    counts: dict[str, int]


def mix(name: str, batches: Mapping[str, int], seed: int, epoch: int, *, heat: float = 1.0, epochs: int = 1) -> Mix:
    """Mix tasks, given by their number of batches (at least one each), by one of these rules:

    * `round-robin`: each task in turn, equally often, until the largest is complete; smaller ones start over.
    * `proportional`: every batch of every task once, shuffled, so a task's share is its share of the data.
    * `temperature`: as long as proportional, with shares n ** (1 / heat); 1 is proportional, large values are nearly equal.
    * `annealed`: as long as proportional, with shares n ** power, where the power falls from 1 in the first epoch to 0.2 in the last
      (Stickland and Murray, 2019). Epochs count from 0; those past the last planned one are mixed like the last.
    """
    if name == "round-robin":
        counts = dict.fromkeys(batches, max(batches.values()))
    elif name == "proportional":
        counts = dict(batches)
    elif name == "temperature":
        counts = _apportion(batches, heat)
    else:
        power = 1.0 - 0.8 * min(epoch, epochs - 1) / max(epochs - 1, 1)
        counts = _apportion(batches, 1.0 / power)

    turns = [_passes(task, batches[task], counts[task], seed, epoch) for task in batches]
    if name == "round-robin":
        return Mix(tuple(turn for rounds in zip(*turns, strict=True) for turn in rounds), counts)
    together = [turn for task in turns for turn in task]
    order = generator(seed, "mix", epoch).permutation(len(together))
    return Mix(tuple(together[index] for index in order), counts)


def _passes(task: str, available: int, wanted: int, seed: int, epoch: int) -> list[Turn]:
    passes = range(-(-wanted // available))
    shuffled = (generator(seed, "mix", task, epoch, turn).permutation(available) for turn in passes)
    return [(task, int(index)) for index in np.concatenate(list(shuffled))[:wanted]]


def _apportion(batches: Mapping[str, int], temperature: float) -> dict[str, int]:
    """Round the shares to whole turns that add up to the total (largest remainders), at least one per task."""
    total = sum(batches.values())
    sizes = np.array(list(batches.values()), dtype=np.float64)
    shares = np.exp(np.log(sizes / sizes.max()) / temperature)
    exact = shares / shares.sum() * total
    whole = np.maximum(np.floor(exact), 1).astype(np.int64)
    order = np.argsort(-(exact - whole), kind="stable")
    missing = total - int(whole.sum())
    whole[order[: max(missing, 0)]] += 1
    for _ in range(-missing):  # small shares were raised to one turn, so take the excess from the largest
        whole[int(np.argmax(whole))] -= 1
    return dict(zip(batches, whole.tolist(), strict=True))
