"""The token shards artifact: a tokenised corpus in memory-mapped files."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from osler.core.artifact import LOGS, Artifact
from osler.core.errors import ArtifactError, OslerError
from osler.core.files import sha256, write_atomic, write_json

SPLITS = ("train", "validation")
_INDEX, _SHARDS, _VERIFIED = "index.json", "shards", Path(LOGS, "verified.json")
_RECORD = np.dtype([("end", "<u4"), ("source", "<u4"), ("split", "u1")])
"""One document: its end in the shard, and the numbers of its source and split."""


class ShardEntry(BaseModel):
    """One shard in the index."""

    model_config = ConfigDict(frozen=True)

    name: str
    documents: int
    tokens: int


class TokenIndex(BaseModel):
    """The index file: how ids are stored, and what the shards hold."""

    model_config = ConfigDict(frozen=True)

    dtype: str
    counts: dict[str, int]
    """`train_documents`, `train_tokens`, `validation_documents`, `validation_tokens`."""
    sources: dict[str, dict[str, int]]
    """Tokens by source and split."""
    shards: tuple[ShardEntry, ...]
    sentences: bool = False
    """Whether the ends of sentences are stored."""
    density: bool = False
    """Whether the term density of documents is stored."""


@dataclass(frozen=True)
class TokenisedDocuments:
    """The documents of one split, without special tokens.

    Positions count over all shards laid end to end. No document crosses from one shard into the next.
    """

    shards: tuple[np.ndarray, ...]
    starts: np.ndarray
    lengths: np.ndarray
    sources: np.ndarray
    """The source of each document, as an index into `names`."""
    names: tuple[str, ...]
    sentence_ends: np.ndarray | None = None
    """Sorted ends of sentences over the documents of all splits, if the shards have them."""
    density: np.ndarray | None = None
    """Term density of each document, if the corpus has it."""

    @cached_property
    def _bases(self) -> np.ndarray:
        """The position of the first token of each shard."""
        return np.cumsum([0, *(len(shard) for shard in self.shards)], dtype=np.int64)[:-1]

    def gather(self, starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Return the ids of several stretches, concatenated. Each stretch must lie within one document."""
        shard = np.searchsorted(self._bases, starts, side="right") - 1
        # Sort by shard, to read each shard with one index operation.
        by_shard = np.argsort(shard, kind="stable")
        touched, first = np.unique(shard[by_shard], return_index=True)
        lengths = sizes[by_shard]
        within = offsets_within(lengths)
        source = np.repeat((starts - self._bases[shard])[by_shard], lengths) + within
        target = np.repeat((np.cumsum(sizes) - sizes)[by_shard], lengths) + within
        borders = np.append((np.cumsum(lengths) - lengths)[first], len(source))
        gathered = np.empty(len(source), dtype=np.int64)
        for number, low, high in zip(touched.tolist(), borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            gathered[target[low:high]] = self.shards[number][source[low:high]]
        return gathered


def offsets_within(lengths: np.ndarray) -> np.ndarray:
    """Count 0, 1, 2, … within each length, concatenated into one array."""
    ends = np.cumsum(lengths, dtype=np.int64)
    offsets: np.ndarray = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
    return offsets


@dataclass(frozen=True)
class TokenShards(Artifact):
    """A finished tokenised corpus."""

    kind: ClassVar = "tokens"

    @classmethod
    def find(cls, path: Path) -> TokenShards | None:
        """Open a tokenised corpus if the folder holds a finished one."""
        try:
            return cls.open(path)
        except OslerError:
            return None

    @cached_property
    def index(self) -> TokenIndex:
        return _read_index(self.path)

    def split(self, split: str) -> TokenisedDocuments:
        """Map the shards into memory and list the documents of one split."""
        dtype = np.dtype(self.index.dtype)
        maps: list[np.ndarray] = []
        columns: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        sentences: list[np.ndarray] = []
        densities: list[np.ndarray] = []
        before = 0
        for shard in self.index.shards:
            path = self.path / _SHARDS / f"{shard.name}.ids"
            if not path.is_file() or path.stat().st_size != shard.tokens * dtype.itemsize:
                raise _damaged(path, self.path)
            # A plain view of the map: slicing a `memmap` object itself is several times slower.
            mapped = np.memmap(path, dtype, "r") if shard.tokens else np.zeros(0, dtype)
            maps.append(mapped.view(np.ndarray))
            path = self.path / _SHARDS / f"{shard.name}.documents.npy"
            records = self._load(path)
            if len(records) != shard.documents:
                raise _damaged(path, self.path)
            ends = records["end"].astype(np.int64)
            lengths = np.diff(ends, prepend=0)
            here = records["split"] == SPLITS.index(split)
            starts = before + ends - lengths
            columns.append((starts[here], lengths[here].astype(np.int32), records["source"][here].astype(np.int32)))
            if self.index.sentences:
                sentences.append(before + self._load(path.with_name(f"{shard.name}.sentences.npy")).astype(np.int64))
            if self.index.density:
                densities.append(self._load(path.with_name(f"{shard.name}.density.npy"))[here])
            before += shard.tokens
        starts, lengths, sources = (np.concatenate(column) for column in zip(*columns, strict=True))
        sentence_ends = np.concatenate(sentences) if sentences else None
        density = np.concatenate(densities) if densities else None
        names = tuple(self.index.sources)
        return TokenisedDocuments(tuple(maps), starts, lengths, sources, names, sentence_ends, density)

    def _load(self, path: Path) -> np.ndarray:
        try:
            loaded: np.ndarray = np.load(path)
        except (OSError, ValueError, EOFError) as error:
            raise _damaged(path, self.path) from error
        return loaded

    def verify(self) -> None:
        """Check every file against its checksum, unless an earlier check of the same files is on record."""
        with suppress(OSError, ValueError):
            if json.loads((self.path / _VERIFIED).read_text()) == self._stamps():
                return
        for name, expected in self.manifest.files.items():
            if sha256(self.path / name) != expected:
                raise _damaged(self.path / name, self.path)
        self.record_check()

    def record_check(self) -> None:
        """Record that the files are as written, so that the next run skips the check."""
        with suppress(OslerError):  # read-only shared folder: the next run checks again
            write_atomic(self.path / _VERIFIED, json.dumps(self._stamps()) + "\n")

    def _stamps(self) -> dict[str, list[int]]:
        """Size and time of each file. Both change if a folder is copied or a file changes."""
        found = {name: (self.path / name).stat() for name in self.manifest.files}
        return {name: [status.st_size, status.st_mtime_ns] for name, status in found.items()}


@dataclass(frozen=True)
class TokenShardsWriter:
    """Writes the files of a tokenised corpus. The same documents give the same bytes."""

    folder: Path

    def has_shard(self, number: int) -> bool:
        return self._records(number).exists()

    def write_shard(
        self,
        number: int,
        ids: bytes,
        documents: Sequence[tuple[int, int, int]],
        sentence_ends: Sequence[int] | None = None,
        density: Sequence[float] | None = None,
    ) -> None:
        """Write one shard; `documents` are (end, source, split). The records come last: they mark it as complete."""
        write_atomic(self.folder / _SHARDS / f"{number:05d}.ids", ids)
        if sentence_ends is not None:
            ends = np.array(sentence_ends, dtype="<u4")
            write_atomic(self.folder / _SHARDS / f"{number:05d}.sentences.npy", _npy(ends))
        if density is not None:
            write_atomic(self.folder / _SHARDS / f"{number:05d}.density.npy", _npy(np.array(density, dtype="<f4")))
        write_atomic(self._records(number), _npy(np.array(documents, dtype=_RECORD)))

    def index_shards(
        self, count: int, sources: Sequence[str], dtype: str, *, sentences: bool = False, density: bool = False
    ) -> TokenIndex:
        """Build the index from the records of the first `count` shards."""
        counts = {f"{split}_{unit}": 0 for split in SPLITS for unit in ("documents", "tokens")}
        tokens = {name: dict.fromkeys(SPLITS, 0) for name in sources}
        shards = []
        for shard in range(count):
            records = np.load(self._records(shard))
            lengths = np.diff(records["end"].astype(np.int64), prepend=0)
            for number, split in enumerate(SPLITS):
                here = records["split"] == number
                counts[f"{split}_documents"] += int(here.sum())
                counts[f"{split}_tokens"] += int(lengths[here].sum())
                sums = np.bincount(records["source"][here], weights=lengths[here], minlength=len(sources))
                for name, total in zip(sources, sums, strict=True):
                    tokens[name][split] += int(total)
            shards.append(ShardEntry(name=f"{shard:05d}", documents=len(records), tokens=int(lengths.sum())))
        stored = {"sentences": sentences, "density": density}
        return TokenIndex(dtype=dtype, counts=counts, sources=tokens, shards=tuple(shards), **stored)

    def write_index(self, index: TokenIndex) -> None:
        """Write the index. It comes last: it marks the tokenised corpus as complete."""
        write_json(self.folder / _INDEX, index.model_dump(mode="json", exclude_defaults=True))

    @property
    def index(self) -> TokenIndex | None:
        """The index, once it is written."""
        return _read_index(self.folder) if (self.folder / _INDEX).exists() else None

    def _records(self, number: int) -> Path:
        return self.folder / _SHARDS / f"{number:05d}.documents.npy"


def _npy(values: np.ndarray) -> bytes:
    data = io.BytesIO()
    np.save(data, values)
    return data.getvalue()


def _read_index(folder: Path) -> TokenIndex:
    try:
        return TokenIndex.model_validate_json((folder / _INDEX).read_bytes())
    except (OSError, ValidationError) as error:
        raise _damaged(folder / _INDEX, folder) from error


def _damaged(path: Path, folder: Path) -> ArtifactError:
    return ArtifactError(
        "this file of the tokenised corpus is missing or damaged",
        where=path,
        fix=f"Delete the folder {folder} and run the same command again; it will be rebuilt",
    )
