"""Input files, and documents on their way through the stage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class InputFile:
    """One raw file. `name` is how document ids and the ledger refer to it; `source` is the index of its source in the recipe."""

    path: Path
    name: str
    source: int
    source_name: str
    reader: str
    size: int


@dataclass(frozen=True, slots=True)
class FileRange:
    """A stretch of a file, `start` to `stop` in the reader's own unit; `first_row` is the number of its first row."""

    file: InputFile
    start: int
    stop: int
    first_row: int = 1


@dataclass(frozen=True, slots=True)
class RawDocument:
    """A document as the reader found it. Rows count from 1."""

    row: int
    text: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class RepairedDocument:
    """A document as the filters see it."""

    text: str
    words: int
    language: str | None
