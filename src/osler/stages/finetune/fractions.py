"""A share of the training documents, for learning curves: a smaller share is part of every larger one."""

from __future__ import annotations

from collections.abc import Sequence

from osler.core.seeding import derive
from osler.text.document import Record


def share(records: Sequence[Record], fraction: float, seed: int) -> list[Record]:
    """So many of the records, at least one, in their own order.

    They are drawn by a hash of seed and id, not by place: tasks over the same documents draw the same ones.
    """
    if fraction >= 1.0:
        return list(records)
    drawn = sorted(range(len(records)), key=lambda place: (derive(seed, "fraction", records[place].id), place))
    kept = set(drawn[: max(1, round(fraction * len(records)))])
    return [record for place, record in enumerate(records) if place in kept]
