"""Readers: each turns one file type into documents.

To add one, write a module here with a `READER` object and register it below. A reader never repairs documents. For a record it
cannot read it yields a `BadRecord` and goes on; if it cannot go on, it raises an InputError. Neither quotes the text. For a record
that its options leave out it yields a `LeftOut`, so that every record is accounted for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from osler.core.config import Recipe
from osler.core.registry import Registry
from osler.stages.corpus.documents import FileRange, InputFile, Reading

if TYPE_CHECKING:
    from osler.stages.corpus.config import CorpusSource

READERS = Registry(
    "readers",
    {
        "jats": "osler.stages.corpus.readers.jats:READER",
        "jsonl": "osler.stages.corpus.readers.jsonl:READER",
        "medlineplus": "osler.stages.corpus.readers.medlineplus:READER",
        "mimic": "osler.stages.corpus.readers.mimic:READER",
        "moses": "osler.stages.corpus.readers.moses:READER",
        "parquet": "osler.stages.corpus.readers.parquet:READER",
        "patents": "osler.stages.corpus.readers.patents:READER",
        "pubmed": "osler.stages.corpus.readers.pubmed:READER",
        "table": "osler.stages.corpus.readers.table:READER",
        "text": "osler.stages.corpus.readers.text:READER",
        "warc": "osler.stages.corpus.readers.warc:READER",
        "wikipedia": "osler.stages.corpus.readers.wikipedia:READER",
    },
)


class Reader(Protocol):
    """Interface of a reader.

    `endings` are the file endings it reads by default. A reader of XML may have `roots`: the root elements of `.xml` files it reads.
    `options` is the class of its own settings, the table `options` of a source; `source.options` is then always an instance of it.
    """

    endings: tuple[str, ...]
    options: type[Recipe] | None

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FileRange]:
        """Cut a file into ranges of about `size` bytes that can be read independently; one range if it cannot be cut."""
        ...

    def read(self, file_range: FileRange, source: CorpusSource) -> Iterator[Reading]:
        """Yield the documents of a range, in file order."""
        ...
