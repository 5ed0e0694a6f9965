"""Token shards: a tokenised corpus, memory-mapped."""

from __future__ import annotations

import hashlib
import io
import json
import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from osler.artifacts.corpus import Corpus, RowGroup
from osler.core.errors import ArtifactError
from osler.core.files import write_atomic

SPLITS = ("train", "validation")
DOCUMENT = np.dtype([("end", "<u4"), ("source", "<u4"), ("split", "u1")])
"""Where a document ends in its shard, the number of its source, and its split."""

SLICE_BYTES = 8 << 20
"""About how much text makes a shard: what a worker holds in memory, and what a kill can cost it."""
_ROWS = 32


@dataclass(frozen=True)
class Slice:
    """One slice of the corpus, and everything a worker needs to make its shard."""

    groups: tuple[RowGroup, ...]
    shard: Path
    tokenizer: Path
    tokenizer_hash: str
    dtype: str
    sources: tuple[str, ...]
    validation_share: float

    @property
    def ids(self) -> Path:
        """The file of the token ids."""
        return self.shard.with_name(f"{self.shard.name}.ids")

    @property
    def documents(self) -> Path:
        """The file of the document records; it appears when the shard is whole."""
        return self.shard.with_name(f"{self.shard.name}.documents.npy")


def row_group_runs(corpus: Corpus) -> list[tuple[RowGroup, ...]]:
    """Row groups in runs of about `SLICE_BYTES` of text; no run crosses a shard."""
    runs: dict[tuple[Path, int], list[RowGroup]] = {}
    before: Counter[Path] = Counter()
    for group in corpus.row_groups():
        runs.setdefault((group.shard, before[group.shard] // SLICE_BYTES), []).append(group)
        before[group.shard] += group.bytes
    return [tuple(groups) for groups in runs.values()]


def write_shard(task: Slice) -> None:
    """Tokenise one slice, unless an earlier run did."""
    if task.documents.exists():
        return
    if multiprocessing.parent_process() is not None:
        # One thread in each of several processes: more would only get in each other's way.
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
    encoder = _encoder(task.tokenizer, task.tokenizer_hash)
    number = {name: index for index, name in enumerate(task.sources)}
    ids = io.BytesIO()
    records: list[tuple[int, int, int]] = []
    for texts, sources in _rows(task):
        for text, source, found in zip(texts, sources, _encoded(encoder, texts, task.tokenizer), strict=True):
            if found:
                ids.write(np.array(found, dtype=task.dtype).tobytes())
                held_out = share_of(text) < task.validation_share
                records.append((ids.tell() // np.dtype(task.dtype).itemsize, number[source], int(held_out)))
    table = io.BytesIO()
    np.save(table, np.array(records, dtype=DOCUMENT))
    write_atomic(task.ids, ids.getvalue())
    write_atomic(task.documents, table.getvalue())


def share_of(text: str) -> float:
    """A number in [0, 1) from the text itself: a document stays in its split whatever else the corpus holds."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64


def _encoded(encoder: Tokenizer, texts: list[str], path: Path) -> list[list[int]]:
    try:
        # Character offsets are not needed, and without them encoding is quicker.
        return [encoding.ids for encoding in encoder.encode_batch_fast(texts, add_special_tokens=False)]
    except Exception as error:  # the library raises nothing more particular
        # Its message may quote the text, so it is not passed on.
        raise ArtifactError(
            "the tokenizer cannot encode this corpus; most often it names an unknown token that it does not have",
            where=path,
            fix="Train one with osler vocab, or correct unk_token",
        ) from error


def _rows(task: Slice) -> Iterator[tuple[list[str], list[str]]]:
    for group in task.groups:
        for batch in group.batches(["text", "source"], _ROWS):
            yield batch.column("text").to_pylist(), batch.column("source").to_pylist()


@lru_cache(maxsize=1)
def _encoder(path: Path, content: str) -> Tokenizer:
    """The tokenizer, read once a process; `content` is its hash, so that a changed file is read again."""
    tokenizer = Tokenizer.from_file(str(path))
    # A tokenizer from elsewhere may be set to cut texts to its model's length, or to fill them up.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


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
