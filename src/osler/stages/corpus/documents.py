"""A document on its way through the stage, and the place it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class InputFile:
    """One raw file: where it is, the name it has in ids and in the ledger, its source and its reader."""

    path: Path
    name: str
    source: int
    source_name: str
    reader: str
    size: int


@dataclass(frozen=True, slots=True)
class FilePart:
    """What can be read of a file on its own: `start` to `stop` in the reader's unit; its first row is `first_row`."""

    file: InputFile
    start: int
    stop: int
    first_row: int = 1


@dataclass(frozen=True, slots=True)
class RawDocument:
    """What a reader found: the text as it was, its id where it has one, and its row in the file (from 1)."""

    row: int
    text: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class RepairedDocument:
    """What a filter judges: repaired text and what is known about it."""

    text: str
    words: int
    language: str | None
