"""Write files atomically, with portable names, and count what a format cannot hold."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from osler.core.errors import InputError, OutputError, writing
from osler.formats.base import checked_text
from osler.text.document import Document, Record, Relation, Span, TextPair

_UNSAFE = re.compile(r"[^\w.+=@()-]+")
DISCONTINUOUS = "discontinuous spans"
RELATIONS = "relations"
ATTRIBUTES = "attributes"
LABELS = "document labels"
VALUES = "values"
META = "meta"
RENAMED = "ids renamed"
CHARACTERS = "characters replaced by a blank"
RESPACED = "texts re-spaced at word edges"


@contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """A stream that becomes `path` when the block ends well, and leaves nothing when it does not."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(partial, "wb") as stream:
                yield stream
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)


class OutputFolder:
    """A new folder of files, one or more for each document, named after it."""

    def __init__(self, path: Path, losses: Counter[str]) -> None:
        self.path = path
        self._losses = losses
        self._taken: set[str] = set()
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise OutputError("the folder is not empty", where=path, fix="Choose a new folder")

    def stem(self, document_id: str) -> str:
        """A file name for a document: its id, made safe; a repeated id is refused."""
        stem = _UNSAFE.sub("_", document_id).lstrip(".")[:120] or "document"
        if stem != document_id:
            self._losses[RENAMED] += 1
            base, number = stem, 2
            while stem.lower() in self._taken:
                stem, number = f"{base}~{number}", number + 1
        if stem.lower() in self._taken:
            raise InputError(
                f"two documents have one id, or ids that differ only in case (see number {len(self._taken) + 1})",
                where=self.path,
                fix="Give every document its own id",
            )
        self._taken.add(stem.lower())
        return stem

    def write(self, name: str, text: str) -> None:
        """Write one UTF-8 file, character for character."""
        target = self.path / name
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode())


def unheld(record: Record, holds: Collection[str]) -> Counter[str]:
    """What of this record a format that holds only these things would lose."""
    lost: Counter[str] = Counter()
    if isinstance(record, Document):
        checked_text(record.text, where="document")
        lost[DISCONTINUOUS] = sum(span.discontinuous for span in record.spans)
        lost[RELATIONS] = len(record.relations)
        scored: tuple[Span | Relation, ...] = (*record.spans, *record.relations)
        lost[ATTRIBUTES] = sum(len(item.attributes) for item in scored)
        lost["scores"] = sum(item.score is not None for item in scored)
        lost["spans"] = len(record.spans)
    lost[LABELS] = len(record.labels)
    lost["scores"] += len(record.scores)
    lost[VALUES] = int(record.value is not None)
    lost[META] = len(record.meta)
    for held in holds:
        del lost[held]
    return +lost


def only_documents(record: Record, losses: Counter[str]) -> Document | None:
    """The record if it is a document; a pair of texts is counted as lost."""
    if isinstance(record, TextPair):
        losses["text pairs"] += 1
        return None
    return record


def only_pairs(record: Record, losses: Counter[str]) -> TextPair | None:
    """The record if it is a pair of texts; a document is counted as lost."""
    if isinstance(record, Document):
        losses["documents"] += 1
        return None
    return record


def flattened(text: str, unwanted: str, losses: Counter[str]) -> str:
    """The text with each unwanted character replaced by a blank, so that offsets stay true; the count is a loss."""
    count = sum(map(text.count, unwanted))
    if count:
        losses[CHARACTERS] += count
        text = text.translate({ord(character): " " for character in unwanted})
    return text


TITLE_LENGTH = "title_length"


def joined(title: str, abstract: str) -> tuple[str, dict[str, str]]:
    """The text, and the meta that tells where its title ends."""
    return (f"{title} {abstract}", {TITLE_LENGTH: str(len(title))}) if abstract else (title, {})


def parted(document: Document, losses: Counter[str]) -> tuple[str, str, str]:
    """The text as single lines can hold it, its title and its abstract.

    The title ends where it was read to end, else at the first line break, else with the text.
    """
    text = flattened(document.text, "\n\r\t", losses)
    known = document.meta.get(TITLE_LENGTH, "")
    end = int(known) if known.isdigit() else document.text.find("\n")
    if not (0 < end < len(text) - 1 and text[end] == " "):
        end = len(text)
    return text, text[:end], text[end + 1 :]
