"""What a corpus holds, in numbers: counted part by part, the same for any division of the input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osler.stages.corpus.parts import Part
from osler.stages.corpus.tables import read_columns

_SUMS = ("characters", "words", "bytes", "repaired")


@dataclass
class Tally:
    """Counts over some documents; what was read is what is held plus what was removed."""

    read: int = 0
    documents: int = 0
    characters: int = 0
    words: int = 0
    bytes: int = 0
    repaired: int = 0
    removed: Counter[str] = field(default_factory=Counter)

    def plain(self) -> dict[str, Any]:
        """The counts as plain data, reasons sorted."""
        return {**asdict(self), "removed": dict(sorted(self.removed.items()))}


class Statistics:
    """Tallies over the whole corpus and by source, and how long documents are."""

    def __init__(self, sources: Sequence[str]) -> None:
        self.total = Tally()
        self.sources = {name: Tally() for name in sources}
        self.lengths: Counter[int] = Counter()

    def add_part(self, part: Part, keep: NDArray[np.bool_]) -> None:
        """Count one part, given which of its kept documents stay after duplicates are removed."""
        kept = read_columns(part.kept, "source", *_SUMS)
        names = np.asarray(kept["source"].to_pylist(), dtype=object)
        values = {name: kept[name].to_numpy().astype(np.int64) for name in _SUMS}
        for name in dict.fromkeys(names.tolist()):
            here = names == name
            copies = int((here & ~keep).sum())
            self._add(
                name, {key: int(column[here & keep].sum()) for key, column in values.items()}, int((here & keep).sum())
            )
            self._remove(name, "duplicate.exact", copies)
        removed = read_columns(part.removed, "source", "reason")
        pairs = Counter(zip(removed["source"].to_pylist(), removed["reason"].to_pylist(), strict=True))
        for (name, reason), count in pairs.items():
            self._remove(name, reason, count)
        self.lengths.update((2 ** np.log2(values["words"][keep]).astype(np.int64)).tolist())

    def plain(self) -> dict[str, Any]:
        """Everything as plain data; lengths are counted in words, from each power of two to below the next."""
        return {
            **self.total.plain(),
            "words_per_document": {str(low): count for low, count in sorted(self.lengths.items())},
            "sources": {name: tally.plain() for name, tally in self.sources.items()},
        }

    def _add(self, source: str, sums: dict[str, int], documents: int) -> None:
        for tally in (self.total, self.sources[source]):
            tally.read += documents
            tally.documents += documents
            for name, value in sums.items():
                setattr(tally, name, getattr(tally, name) + value)

    def _remove(self, source: str, reason: str, count: int) -> None:
        if count:
            for tally in (self.total, self.sources[source]):
                tally.read += count
                tally.removed[reason] += count
