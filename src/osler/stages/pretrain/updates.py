"""Which batches of the stream make up which update: `accumulate` each, fewer (or more) while the ramp lasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Updates:
    """Micro-batches of every update. `ramp` holds pairs (up to this update, micro-batches), before `accumulate` applies."""

    accumulate: int
    ramp: Sequence[tuple[int, int]] = ()

    def batches_before(self, update: int) -> int:
        """How many micro-batches the updates before this one take: where its own begin in the stream."""
        total = begin = 0
        for end, count in self.ramp:
            total += max(0, min(update, end) - begin) * count
            begin = end
        return total + max(0, update - begin) * self.accumulate

    def batches(self, update: int) -> range:
        """The numbers of an update's micro-batches in the stream; none is left out and none comes twice."""
        return range(self.batches_before(update), self.batches_before(update + 1))

    def whole_within(self, batches: int) -> int:
        """How many updates so many micro-batches are enough for."""
        total = begin = 0
        for end, count in self.ramp:
            if batches < total + (end - begin) * count:
                return begin + (batches - total) // count
            total += (end - begin) * count
            begin = end
        return begin + (batches - total) // self.accumulate
