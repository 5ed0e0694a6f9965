"""The group a record belongs to, by which splits are carved out or listed."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from osler.core.errors import InputError
from osler.formats.sources import SourceTree
from osler.tasks.layout import Carve, Key
from osler.text.document import Document, Record, TextPair

KeyOf = Callable[[Record], str]


def key_of(key: Key, tree: SourceTree) -> KeyOf:
    """A function from records to their group; tables named by the key are read from the tree."""
    kind, _, name = key.by.partition(":")
    table = _table(tree, name) if kind == "table" else {}
    pattern = re.compile(key.pattern) if key.pattern else None

    def value(record: Record) -> str:
        if kind == "meta":
            return record.meta.get(name, "")
        if kind == "table":
            return table.get(record.id, "")
        if kind == "first" and isinstance(record, TextPair):
            return record.first
        if kind == "text" and isinstance(record, Document):
            return record.text
        return record.id

    def group(record: Record) -> str:
        found = value(record)
        match = pattern.search(found) if pattern else None
        return match[1] if match else found

    return group


def carved(carves: Mapping[str, Carve], groups: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    """The groups each carved split takes; `groups` has the groups of the pool in file order, by the split that asks."""
    taken: set[str] = set()
    chosen: dict[str, set[str]] = {}
    for name, carve in carves.items():
        everything = list(dict.fromkeys(groups[name]))
        free = [group for group in everything if group not in taken]
        # Rounded first: 0.16 of 100 groups is 16, whatever a float makes of it.
        size = math.ceil(round(carve.share * len(everything), 6))
        if carve.method == "tail":
            chosen[name] = set(free[len(free) - size :])
        else:
            chosen[name] = set(sorted(free, key=lambda group: _rank(carve.seed, group))[:size])
        taken |= chosen[name]
    return chosen


def listed(tree: SourceTree, name: str) -> set[str]:
    """The keys that a list names, one a line."""
    return {line.strip() for file in _find(tree, name) for _, line in tree.lines(file) if line.strip()}


def _rank(seed: int, group: str) -> bytes:
    return hashlib.sha256(f"{seed}\0{group}".encode()).digest()


def _table(tree: SourceTree, name: str) -> dict[str, str]:
    rows: Iterable[list[str]] = (line.split("\t") for file in _find(tree, name) for _, line in tree.lines(file))
    return {cells[0]: cells[1] for cells in rows if len(cells) > 1}


def _find(tree: SourceTree, name: str) -> list[str]:
    found = tree.names(name, f"*/{name}")
    if not found:
        raise InputError(f"the file {name} is missing", where=tree.root, fix=f"Put {name} beside the other files")
    return found[:1]
