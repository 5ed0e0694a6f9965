"""Track which cleaned documents remain after documents are compared with each other, and why the others do not.

A document is identified by its number among the kept documents of all parts. Steps that compare documents report numbers; the
ledger gets ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osler.core.extras import require
from osler.stages.corpus.parts import LOSS_SCHEMA, ORIGIN

pa, pq, pc = (require(name, "corpus") for name in ("pyarrow", "pyarrow.parquet", "pyarrow.compute"))

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class _Removals:
    """Documents that one step removed, in increasing order.

    `kept` is the document that each of them resembles, or -1; `names` are id and source of one outside the corpus.
    """

    step: str
    documents: Numbers
    reasons: Sequence[str]
    kept: Numbers
    jaccard: NDArray[np.float64] | None
    names: Sequence[tuple[str, str]] | None
    share: NDArray[np.float64] | None


@dataclass
class Remaining:
    """The kept documents of all parts. Steps that change text replace the `files` by their own."""

    files: list[Path]
    keep: list[Mask]
    losses: list[list[Path]]
    """For each part, files with ledger rows."""
    _removals: list[_Removals] = field(default_factory=list)

    @classmethod
    def of(cls, kept: Sequence[Path], removed: Sequence[Path]) -> Remaining:
        """Start with all documents of the parts, given the two files of each."""
        keep = [np.ones(pq.read_metadata(path).num_rows, dtype=np.bool_) for path in kept]
        return cls(list(kept), keep, [[path] for path in removed])

    @cached_property
    def starts(self) -> Numbers:
        """The number of each part's first document, and the number of all documents."""
        return np.cumsum([0, *map(len, self.keep)], dtype=np.int64)

    def column(self, number: int, *names: str) -> Any:
        """Read columns of a part's kept documents."""
        return read_columns(self.files[number], *names)

    def of_sources(self, values: Mapping[str, int]) -> list[NDArray[np.int32]]:
        """Return, for each part, the value of each document's source; 0 if it has none."""
        names, numbers = pa.array(list(values), pa.string()), np.array([*values.values(), 0], dtype=np.int32)
        found = (pc.index_in(self.column(part, "source")["source"], names) for part in range(len(self.files)))
        return [numbers[pc.fill_null(index, len(values)).to_numpy()] for index in found]

    def remove(
        self,
        step: str,
        documents: Numbers,
        reasons: Sequence[str],
        kept: Numbers | None = None,
        jaccard: NDArray[np.float64] | None = None,
        names: Sequence[tuple[str, str]] | None = None,
        share: NDArray[np.float64] | None = None,
    ) -> None:
        """Remove documents, given in increasing order."""
        kept = np.full(len(documents), -1, dtype=np.int64) if kept is None else kept
        self._removals.append(_Removals(step, documents, reasons, kept, jaccard, names, share))
        for mask, start, stop in zip(self.keep, self.starts[:-1], self.starts[1:], strict=True):
            low, high = np.searchsorted(documents, [start, stop])
            mask[documents[low:high] - start] = False

    def replace_text(self, part: int, kept: Path, removed: Path) -> None:
        """Replace the documents of a part by those that a step rewrote, and add the step's ledger rows.

        Documents left without words are removed.
        """
        self.files[part] = kept
        self.losses[part].append(removed)
        self.keep[part] &= read_columns(kept, "words")["words"].to_numpy() > 0

    @cached_property
    def _names(self) -> dict[int, tuple[str, str]]:
        """Id and source of every document that was kept in place of another. Valid only once all steps are done."""
        wanted = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *(step.kept for step in self._removals)]))
        names: dict[int, tuple[str, str]] = {}
        for part, (start, stop) in enumerate(pairwise(self.starts.tolist())):
            here = wanted[(wanted >= start) & (wanted < stop)]
            if len(here):
                rows = self.column(part, "id", "source").take(pa.array(here - start))
                pairs = zip(rows["id"].to_pylist(), rows["source"].to_pylist(), strict=True)
                names.update(zip(here.tolist(), pairs, strict=True))
        return names

    def ledger(self, part: int) -> Any:
        """Return the ledger rows of one part, in input order: what was removed from it or changed in it."""
        tables = [read_columns(path, *LOSS_SCHEMA.names) for path in self.losses[part]]
        for removals in self._removals:
            low, high = np.searchsorted(removals.documents, self.starts[part : part + 2])
            if low < high:
                tables.append(self._rows(removals, part, slice(low, high)))
        # The sort is stable, so the rows of a document stay in the order of the steps.
        return pa.concat_tables(tables).sort_by("position")

    def _rows(self, removals: _Removals, part: int, here: slice) -> Any:
        count = here.stop - here.start
        rows = pa.array(removals.documents[here] - self.starts[part])
        origin = self.column(part, *ORIGIN, "characters").take(rows)
        columns = dict(zip(origin.column_names, origin.columns, strict=True))
        kept: Sequence[tuple[str | None, str | None]]
        if removals.names is not None:
            kept = removals.names[here]
        else:
            kept = [self._names.get(number, (None, None)) for number in removals.kept[here].tolist()]
        columns |= {
            "step": pa.array([removals.step] * count, pa.string()),
            "reason": pa.array(removals.reasons[here], pa.string()),
            "unit": pa.array(["document"] * count, pa.string()),
            "kept_id": pa.array([name for name, _ in kept], pa.string()),
            "kept_source": pa.array([source for _, source in kept], pa.string()),
        }
        for name, values in (("jaccard", removals.jaccard), ("share", removals.share)):
            if values is not None:
                columns[name] = pa.array(values[here])
        return pa.table(
            [columns.get(field.name, pa.nulls(count, field.type)) for field in LOSS_SCHEMA], schema=LOSS_SCHEMA
        )


def read_columns(path: Path, *columns: str) -> Any:
    """Read columns of a Parquet file, without adding Arrow threads to the worker processes."""
    return pq.read_table(path, columns=list(columns), use_threads=False)


def remove_exact_duplicates(remaining: Remaining, keeping: Sequence[str], ranks: Mapping[str, int]) -> None:
    """Remove later copies of the same text, except from the sources `keeping`. Source rank takes precedence over input order."""
    tables = [remaining.column(part, "digest") for part in range(len(remaining.files))]
    digests = np.concatenate([np.empty((0, 2), dtype="<u8"), *map(_digests, tables)])
    kept = np.concatenate(
        [np.empty(0, dtype=np.bool_), *(mask > 0 for mask in remaining.of_sources(dict.fromkeys(keeping, 1)))]
    )
    rank = np.concatenate([np.empty(0, dtype=np.int32), *remaining.of_sources(ranks)])
    there = np.flatnonzero(np.concatenate([np.empty(0, dtype=np.bool_), *remaining.keep]))
    originals = there[originals_of(digests[there], kept[there], rank[there])]
    copies = originals != there
    remaining.remove("exact-duplicates", there[copies], ["duplicate.exact"] * int(copies.sum()), originals[copies])


def originals_of(digests: NDArray[np.uint64], kept: Mask, rank: NDArray[np.int32]) -> Numbers:
    """Return the row that each row of an (n, 2) array of 128-bit digests copies; a row that remains is its own original.

    All `kept` rows remain, and of other equal rows the first by rank, then by position. A kept row takes precedence over all equal
    rows, so no other copy of it remains.
    """
    numbers = np.arange(len(digests))
    if not len(digests):
        return numbers
    # The sort is stable: rows with the same keys stay in input order.
    order = np.lexsort((rank, ~kept, digests[:, 0], digests[:, 1]))
    ordered = digests[order]
    first = np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])
    originals = np.empty_like(numbers)
    originals[order] = order[np.flatnonzero(first)][np.cumsum(first) - 1]
    return np.where(kept, numbers, originals)


def _digests(table: Any) -> NDArray[np.uint64]:
    chunks = [chunk for chunk in table["digest"].chunks if len(chunk)]
    views = [np.frombuffer(chunk.buffers()[1], dtype="<u8").reshape(-1, 2) for chunk in chunks]
    rows = [view[chunk.offset :][: len(chunk)] for view, chunk in zip(views, chunks, strict=True)]
    return np.concatenate([np.empty((0, 2), dtype="<u8"), *rows])
