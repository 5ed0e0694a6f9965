"""Write files atomically under portable names, and count what a format cannot hold."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from osler.core.errors import InputError, OutputError, writing
from osler.core.files import atomic
from osler.text.document import Document, Record, Relation, Span, TextPair
from osler.text.words import Range

_UNSAFE = re.compile(r"[^\w.+=@()-]+")
TEXTS = "texts"
SPANS = "spans"
DISCONTINUOUS = "discontinuous spans"
RELATIONS = "relations"
ATTRIBUTES = "attributes"
LABELS = "document labels"
VALUES = "values"
META = "meta"
SCORES = "scores"
PAIRS = "text pairs"
RENAMED = "ids renamed"
FILLED = "metadata filled in"
CHARACTERS = "characters replaced by a blank"
RESPACED = "texts re-spaced at word edges"

output_file = partial(atomic, sync=False)
"""Open a stream that becomes a file if the block succeeds and leaves nothing behind if it fails."""


def spans_by_line(spans: Sequence[Span], lines: Sequence[Range]) -> list[list[Span]]:
    """Return the spans inside each line, in their given order. Lines are sorted and disjoint ranges."""
    starts = [start for start, _ in lines]
    found: list[list[Span]] = [[] for _ in lines]
    for span in spans:
        index = bisect_right(starts, span.start) - 1
        if index >= 0 and span.end <= lines[index][1]:
            found[index].append(span)
    return found


class DocumentNames:
    """Names documents in the output by their ids. Ids that the format cannot hold are changed and counted as a loss.

    A changed name that is already taken is numbered (`a_b~2`). Two documents with the same id both keep it.
    """

    def __init__(self, losses: Counter[str]) -> None:
        self._losses = losses
        # Whether the id is unchanged, by the name in lower case, as some file systems ignore case.
        self._taken: dict[str, bool] = {}
        self._ids: set[str] = set()
        self._numbers: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._taken)

    def has(self, document_id: str) -> bool:
        """Whether an earlier document has this id."""
        return document_id in self._ids

    def name(self, document_id: str, allowed: str, *, file: bool = False) -> str:
        """Return the name of the next document. `allowed` is its id in a form that the format can hold.

        Names of files must differ in more than case.
        """
        name = allowed
        key = name.lower()
        self._ids.add(document_id)
        if name == document_id and (key not in self._taken if file else self._taken.get(key, True)):
            self._taken[key] = True
            return name
        self._losses[RENAMED] += 1
        while name.lower() in self._taken:
            self._numbers[key] += 1
            name = f"{allowed}~{self._numbers[key] + 1}"
        self._taken[name.lower()] = False
        return name


def distinct_ids(
    items: Iterable[Span | Relation], letter: str, losses: Counter[str], fits: Callable[[str], object]
) -> list[str]:
    """Return an id per item: its own if it fits the format and is not used yet, else the next free number."""
    items = list(items)
    taken = {item.id for item in items if fits(item.id)}
    used: set[str] = set()
    found, number = [], 0
    for item in items:
        name = item.id
        if not fits(name) or name in used:
            losses[RENAMED] += bool(name)
            number += 1
            while f"{letter}{number}" in taken:
                number += 1
            name = f"{letter}{number}"
        used.add(name)
        found.append(name)
    return found


def renumbered(items: Iterable[Span | Relation], letter: str = "T") -> int:
    """Count the items whose id differs from what a reader assigns (T1, T2, …) if the format holds no ids."""
    return sum(item.id not in ("", f"{letter}{number}") for number, item in enumerate(items, 1))


class OutputFolder:
    """A new folder with one or more files per document, named after the document id."""

    def __init__(self, path: Path, losses: Counter[str]) -> None:
        self.path = path
        self._names = DocumentNames(losses)
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise OutputError("the folder is not empty", where=path, fix="Choose a new folder")

    def stem(self, document_id: str) -> str:
        """Return the file stem of a document: its id with unsafe characters replaced. Raises if an id repeats."""
        # File systems allow 255 bytes; leave room for suffixes and the number of a changed name.
        short = _UNSAFE.sub("_", document_id).lstrip(".")[:120].encode()[:200].decode("utf-8", "ignore")
        stem = short or "document"
        if stem == document_id and self._names.has(document_id):
            raise InputError(
                f"document {len(self._names) + 1} has the id of an earlier document",
                where=self.path,
                fix="Give each document its own id",
            )
        return self._names.name(document_id, stem, file=True)

    def write(self, name: str, text: str) -> None:
        """Write one UTF-8 file without changing line breaks."""
        target = self.path / name
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode())


def count_lost(record: Record, losses: Counter[str], *, holds: Collection[str], meta: Collection[str] = ()) -> None:
    """Count what a record loses in a format that holds only this content and these meta keys."""
    lost: Counter[str] = Counter()
    if isinstance(record, Document):
        lost[DISCONTINUOUS] = sum(span.discontinuous for span in record.spans)
        lost[RELATIONS] = len(record.relations)
        scored: tuple[Span | Relation, ...] = (*record.spans, *record.relations)
        lost[ATTRIBUTES] = sum(len(item.attributes) for item in scored)
        lost[SCORES] = sum(item.score is not None for item in scored)
        lost[SPANS] = len(record.spans)
    lost[LABELS] = len(record.labels)
    lost[SCORES] += len(record.scores)
    lost[VALUES] = int(record.value is not None)
    lost[META] = len(record.meta.keys() - set(meta))
    for held in holds:
        del lost[held]
    losses.update(+lost)


def documents(
    records: Iterable[Record], losses: Counter[str], *, holds: Collection[str], meta: Collection[str] = ()
) -> Iterator[Document]:
    """Yield the documents. Count what the format loses of them, and the pairs it cannot hold."""
    for record in records:
        if isinstance(record, Document):
            count_lost(record, losses, holds=holds, meta=meta)
            yield record
        else:
            losses[PAIRS] += 1


def pairs(
    records: Iterable[Record], losses: Counter[str], *, holds: Collection[str], meta: Collection[str] = ()
) -> Iterator[TextPair]:
    """Yield the pairs. Count what the format loses of them (it holds only one label), and the documents."""
    for record in records:
        if isinstance(record, TextPair):
            count_lost(record, losses, holds=holds, meta=meta)
            if LABELS in holds:
                losses[LABELS] += max(len(record.labels) - 1, 0)
            yield record
        else:
            losses["documents"] += 1


def flattened(text: str, unwanted: str, losses: Counter[str]) -> str:
    """Replace each unwanted character by a space, which keeps offsets valid, and count it as lost."""
    count = sum(map(text.count, unwanted))
    if count:
        losses[CHARACTERS] += count
        text = text.translate({ord(character): " " for character in unwanted})
    return text


def tab_line(cells: Iterable[str], losses: Counter[str]) -> str:
    """Return one line of a tab-separated table. Tabs and line breaks inside cells become spaces."""
    return "\t".join(flattened(cell, "\t\n\r", losses) for cell in cells) + "\n"
