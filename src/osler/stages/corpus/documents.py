"""Input files, and documents on their way through the stage."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FACTS = ("title", "section", "date", "licence", "patient", "language")
"""Facts that a reader may give about a document besides its text and id. Each is a column of the corpus."""
_CREATIVE_COMMONS = re.compile(
    r"creativecommons\.org/(?:licenses|publicdomain)/(by(?:-nc)?(?:-nd|-sa)?|zero|mark)(?:/(\d\.\d))?", re.IGNORECASE
)


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
    """A range of a file, from `start` to `stop` in the reader's own unit; `first_row` is the number of its first row."""

    file: InputFile
    start: int
    stop: int
    first_row: int = 1


@dataclass(frozen=True, slots=True)
class Revision:
    """Which record of its source a document is, and how recent: the highest number of a record is kept, the last one on ties.

    Documents with the same row of a file are parts of one revision.
    """

    record: int
    number: int = 0


@dataclass(frozen=True, slots=True)
class RawDocument:
    """A document as the reader found it. Rows count from 1. `facts` has keys of FACTS only; unknown ones are left out."""

    row: int
    text: str
    id: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    revision: Revision | None = None
    """For sources that publish a record again when it changes."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A revision without a document: the source deleted the record, or it no longer has the wanted text."""

    row: int
    revision: Revision


def known(**facts: str | None) -> dict[str, str]:
    """Return the facts that have a value."""
    return {name: fact for name, fact in facts.items() if fact}


def creative_commons(text: str) -> str | None:
    """Return the licence of the first Creative Commons link in a text, such as CC BY-NC 4.0."""
    found = _CREATIVE_COMMONS.search(text)
    if not found:
        return None
    kind = found[1].lower()
    name = {"zero": "CC0", "mark": "Public Domain Mark"}.get(kind, f"CC {kind.upper()}")
    return f"{name} {found[2]}" if found[2] else name


def named_facts(record: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, str]:
    """Read facts from the fields of a record that a source names. Empty and nested values are left out."""
    found = {fact: record.get(field) for fact, field in fields.items()}
    return {
        fact: str(value)
        for fact, value in found.items()
        if value not in (None, "") and not isinstance(value, dict | list)
    }


def joined(texts: Iterable[str | None]) -> str:
    """Join the texts of several fields with blank lines. A single text is kept exactly as it is."""
    return "\n\n".join(text for text in texts if text)


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that cannot be read, in place of its document. Reason and fix never quote the text.

    `row` is the row or line where it begins and `byte` its first byte in the (decompressed) file, if known.
    """

    row: int | None
    byte: int | None
    reason: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A valid record that the options of its reader leave out, in place of its document. The ledger lists it."""

    row: int
    reason: str
    id: str | None = None


Reading = RawDocument | Withdrawn | BadRecord | LeftOut
"""What a reader yields."""


@dataclass(frozen=True, slots=True)
class RepairedDocument:
    """A document as the filters see it."""

    text: str
    words: int
    language: str | None
    title: str | None = None
