"""The documents of a tokenised corpus, read by memory mapping: what is in memory is some bytes a document, never the ids."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from osler.core.errors import ArtifactError
from osler.stages.pretrain.shards import SPLITS

INDEX = "index.json"


@dataclass(frozen=True)
class TokenisedDocuments:
    """The documents of one split, without special tokens.

    Places are counted over all shards laid end to end; no document reaches from one shard into the next.
    """

    shards: tuple[np.ndarray, ...]
    starts: np.ndarray
    lengths: np.ndarray
    sources: np.ndarray
    """The number of each document's source: its place in `names`."""
    names: tuple[str, ...]

    @classmethod
    def open(cls, folder: Path, split: str) -> TokenisedDocuments:
        """Map the shards, and list the documents of a split."""
        try:
            index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise _damaged(folder / INDEX, folder) from error
        dtype = np.dtype(index["dtype"])
        maps: list[np.ndarray] = []
        columns: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        before = 0
        for shard in index["shards"]:
            path = folder / "shards" / f"{shard['name']}.ids"
            if not path.is_file() or path.stat().st_size != shard["tokens"] * dtype.itemsize:
                raise _damaged(path, folder)
            # A plain view of the map: slices of a `memmap` object itself are several times slower to make.
            mapped = np.memmap(path, dtype, "r") if shard["tokens"] else np.zeros(0, dtype)
            maps.append(mapped.view(np.ndarray))
            columns.append(_records(folder, shard["name"], shard["documents"], split, before))
            before += shard["tokens"]
        starts, lengths, sources = (np.concatenate(column) for column in zip(*columns, strict=True))
        return cls(tuple(maps), starts, lengths, sources, tuple(index["sources"]))

    @classmethod
    def of(cls, ids: np.ndarray, bounds: np.ndarray, sources: np.ndarray | None = None) -> TokenisedDocuments:
        """Documents in memory: document i is ids[bounds[i]:bounds[i + 1]]."""
        numbers = np.zeros(len(bounds) - 1, dtype=np.int32) if sources is None else sources
        names = tuple(str(number) for number in range(int(numbers.max(initial=0)) + 1))
        return cls((ids,), bounds[:-1], np.diff(bounds), numbers, names)

    @cached_property
    def _bases(self) -> np.ndarray:
        """The place of the first token of each shard."""
        return np.cumsum([0, *(len(shard) for shard in self.shards)], dtype=np.int64)[:-1]

    def gather(self, starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """The ids of some stretches, end to end; each lies within a document."""
        shard = np.searchsorted(self._bases, starts, side="right") - 1
        # By shard, so that each shard that is touched is read by one index, however many stretches lie in it.
        by_shard = np.argsort(shard, kind="stable")
        touched, first = np.unique(shard[by_shard], return_index=True)
        lengths = sizes[by_shard]
        within = ramps(lengths)
        source = np.repeat((starts - self._bases[shard])[by_shard], lengths) + within
        target = np.repeat((np.cumsum(sizes) - sizes)[by_shard], lengths) + within
        borders = np.append((np.cumsum(lengths) - lengths)[first], len(source))
        gathered = np.empty(len(source), dtype=np.int64)
        for number, low, high in zip(touched.tolist(), borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            gathered[target[low:high]] = self.shards[number][source[low:high]]
        return gathered


def ramps(lengths: np.ndarray) -> np.ndarray:
    """0, 1, 2, … up to each length, one after the other."""
    ends = np.cumsum(lengths, dtype=np.int64)
    rising: np.ndarray = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
    return rising


def _records(
    folder: Path, name: str, expected: int, split: str, before: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start, length and source of the documents of a split in one shard."""
    path = folder / "shards" / f"{name}.documents.npy"
    try:
        records = np.load(path)
    except (OSError, ValueError, EOFError) as error:
        raise _damaged(path, folder) from error
    if len(records) != expected:
        raise _damaged(path, folder)
    ends = records["end"].astype(np.int64)
    lengths = np.diff(ends, prepend=0)
    here = records["split"] == SPLITS.index(split)
    return (before + ends - lengths)[here], lengths[here].astype(np.int32), records["source"][here].astype(np.int32)


def _damaged(path: Path, folder: Path) -> ArtifactError:
    return ArtifactError(
        "this file of the tokenised corpus is missing or not whole",
        where=path,
        fix=f"Delete the folder {folder} and run the same command again; it will be made anew",
    )
