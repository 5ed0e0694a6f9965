"""Readers: each turns one file type into documents.

To add one, write a module here with a `READER` object and register it below. A reader never repairs or drops documents.
Its errors name the file and the row, never the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from osler.core.registry import Registry
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import FileRange, InputFile, RawDocument

READERS = Registry(
    "readers",
    {
        "jsonl": "osler.stages.corpus.readers.jsonl:READER",
        "parquet": "osler.stages.corpus.readers.parquet:READER",
        "text": "osler.stages.corpus.readers.text:READER",
    },
)


class Reader(Protocol):
    """Interface of a reader. `endings` are the file endings it reads by default."""

    endings: tuple[str, ...]

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FileRange]:
        """Cut a file into ranges of about `size` bytes that can be read independently; one range if it cannot be cut."""
        ...

    def read(self, file_range: FileRange, source: CorpusSource) -> Iterator[RawDocument]:
        """Yield the documents of a range, in file order."""
        ...
