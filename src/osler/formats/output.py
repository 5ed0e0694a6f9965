"""Write files atomically under portable names, and count what a format cannot hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from pathlib import Path

from osler.core.errors import InputError, OutputError, writing
from osler.core.files import atomic
from osler.text.document import Document, Record, Relation, Span, TextPair, check_text

_UNSAFE = re.compile(r"[^\w.+=@()-]+")
SPANS = "spans"
DISCONTINUOUS = "discontinuous spans"
RELATIONS = "relations"
ATTRIBUTES = "attributes"
LABELS = "document labels"
VALUES = "values"
META = "meta"
RENAMED = "ids renamed"
CHARACTERS = "characters replaced by a blank"
RESPACED = "texts re-spaced at word edges"

output_file = partial(atomic, sync=False)
"""Open a stream that becomes a file if the block succeeds and leaves nothing if it fails."""


class OutputFolder:
    """A new folder with one or more files per document, named after its id."""

    def __init__(self, path: Path, losses: Counter[str]) -> None:
        self.path = path
        self._losses = losses
        self._taken: set[str] = set()
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise OutputError("the folder is not empty", where=path, fix="Choose a new folder")

    def stem(self, document_id: str) -> str:
        """File name of a document: its id with unsafe characters replaced. A repeated id raises."""
        stem = _UNSAFE.sub("_", document_id).lstrip(".")[:120] or "document"
        if stem != document_id:
            self._losses[RENAMED] += 1
            base, number = stem, 2
            while stem.lower() in self._taken:
                stem, number = f"{base}~{number}", number + 1
        if stem.lower() in self._taken:
            raise InputError(
                f"document {len(self._taken) + 1} has the id of an earlier document, or differs from it only in case",
                where=self.path,
                fix="Give each document its own id",
            )
        self._taken.add(stem.lower())
        return stem

    def write(self, name: str, text: str) -> None:
        """Write one UTF-8 file without changing line breaks."""
        target = self.path / name
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode())


def count_lost(record: Record, losses: Counter[str], *, holds: Collection[str], meta: Collection[str] = ()) -> None:
    """Count what a format loses of this record if it holds only this content and these meta keys."""
    lost: Counter[str] = Counter()
    if isinstance(record, Document):
        check_text(record.text, where="document")
        lost[DISCONTINUOUS] = sum(span.discontinuous for span in record.spans)
        lost[RELATIONS] = len(record.relations)
        scored: tuple[Span | Relation, ...] = (*record.spans, *record.relations)
        lost[ATTRIBUTES] = sum(len(item.attributes) for item in scored)
        lost["scores"] = sum(item.score is not None for item in scored)
        lost[SPANS] = len(record.spans)
    lost[LABELS] = len(record.labels)
    lost["scores"] += len(record.scores)
    lost[VALUES] = int(record.value is not None)
    lost[META] = len(record.meta.keys() - set(meta))
    for held in holds:
        del lost[held]
    losses.update(+lost)


def documents(
    records: Iterable[Record], losses: Counter[str], *, holds: Collection[str], meta: Collection[str] = ()
) -> Iterator[Document]:
    """Yield the documents among the records and count what the format loses of them, and the pairs."""
    for record in records:
        if isinstance(record, Document):
            count_lost(record, losses, holds=holds, meta=meta)
            yield record
        else:
            losses["text pairs"] += 1


def pairs(
    records: Iterable[Record], losses: Counter[str], *, holds: Collection[str], meta: Collection[str] = ()
) -> Iterator[TextPair]:
    """Yield the pairs among the records and count what the format loses of them: formats of pairs hold one label."""
    for record in records:
        if isinstance(record, TextPair):
            count_lost(record, losses, holds=holds, meta=meta)
            if LABELS in holds:
                losses[LABELS] += max(len(record.labels) - 1, 0)
            yield record
        else:
            losses["documents"] += 1


def flattened(text: str, unwanted: str, losses: Counter[str]) -> str:
    """Replace each unwanted character by a space, which keeps offsets true, and count it as lost."""
    count = sum(map(text.count, unwanted))
    if count:
        losses[CHARACTERS] += count
        text = text.translate({ord(character): " " for character in unwanted})
    return text


def tab_line(cells: Iterable[str], losses: Counter[str]) -> str:
    """One line of a tab-separated table; tabs and line breaks inside a cell become spaces."""
    return "\t".join(flattened(cell, "\t\n\r", losses) for cell in cells) + "\n"
