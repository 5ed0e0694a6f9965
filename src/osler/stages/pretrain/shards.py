"""The shards of a tokenised corpus: how the corpus is cut into slices, and how one slice becomes one shard.

A slice is a run of row groups of one corpus file, so its borders depend on the corpus alone. A shard is two files: the token ids
of all its documents end to end (`NNNNN.ids`, little-endian, to be mapped), and one record for each document
(`NNNNN.documents.npy`), written second: a shard that has it is whole, and a run that was killed writes only the others.
"""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tokenizers import Tokenizer

from osler.core.errors import ArtifactError
from osler.core.files import write_atomic
from osler.core.parquet import undamaged

SPLITS = ("train", "validation")
DOCUMENT = np.dtype([("end", "<u4"), ("source", "<u4"), ("split", "u1")])
"""Where a document ends in its shard, the number of its source, and its split."""

SLICE_BYTES = 8 << 20
"""About how much text makes a shard: what a worker holds in memory, and what a kill can cost it."""
_ROWS = 32


@dataclass(frozen=True)
class Slice:
    """One slice of the corpus, and everything a worker needs to make its shard."""

    corpus: Path
    groups: tuple[int, ...]
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


def corpus_files(corpus: Path) -> list[Path]:
    """The Parquet files of a corpus, in the order of their documents."""
    return sorted(corpus.glob("shards/*.parquet"))


def row_group_runs(path: Path) -> list[tuple[int, ...]]:
    """The row groups of a file in runs of about `SLICE_BYTES` of text each."""
    with undamaged(path):
        metadata = pq.ParquetFile(path).metadata
    runs: dict[int, list[int]] = {}
    before = 0
    for group in range(metadata.num_row_groups):
        runs.setdefault(before // SLICE_BYTES, []).append(group)
        before += metadata.row_group(group).total_byte_size
    return [tuple(groups) for groups in runs.values()]


def source_names(corpus: Path) -> tuple[str, ...]:
    """The sources of all documents, in the order in which they first appear."""
    names: dict[str, None] = {}
    for path in corpus_files(corpus):
        with undamaged(path):
            for batch in pq.ParquetFile(path).iter_batches(batch_size=1 << 16, columns=["source"], use_threads=False):
                names |= dict.fromkeys(pc.unique(batch.column("source")).to_pylist())
    return tuple(names)


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
    with undamaged(task.corpus):
        batches = pq.ParquetFile(task.corpus).iter_batches(
            batch_size=_ROWS, row_groups=list(task.groups), columns=["text", "source"], use_threads=False
        )
    while True:
        with undamaged(task.corpus):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch.column("text").to_pylist(), batch.column("source").to_pylist()


@lru_cache(maxsize=1)
def _encoder(path: Path, content: str) -> Tokenizer:
    """The tokenizer, read once a process; `content` is its hash, so that a changed file is read again."""
    tokenizer = Tokenizer.from_file(str(path))
    # A tokenizer from elsewhere may be set to cut texts to its model's length, or to fill them up.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
