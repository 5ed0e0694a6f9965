"""Readers: each turns one kind of raw file into documents.

A reader is one file here with one object: `endings` says which files it takes unasked, `cut` how a large file falls
into pieces that can be read apart, `read` yields the documents of one piece in order. A reader never repairs or drops
anything, and its errors name the file and the row, never what stands there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from osler.core.registry import Registry
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import FilePart, InputFile, RawDocument

READERS = Registry(
    "readers",
    {
        "jsonl": "osler.stages.corpus.readers.jsonl:READER",
        "parquet": "osler.stages.corpus.readers.parquet:READER",
        "text": "osler.stages.corpus.readers.text:READER",
    },
)


class Reader(Protocol):
    """What every reader offers."""

    endings: tuple[str, ...]

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FilePart]:
        """Pieces of about `size` bytes that cover the file in order; one piece where it cannot be cut."""
        ...

    def read(self, piece: FilePart, source: CorpusSource) -> Iterator[RawDocument]:
        """The documents of one piece, in file order."""
        ...
