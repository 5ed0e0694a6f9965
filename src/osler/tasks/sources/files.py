"""Records of official files, read through the format the card names and sent to their splits, one by one.

Defects are counted by split. A card states those it knows; more than it states is refused with the place of the first, because
it means that the files are not those the card describes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cached_property
from typing import Any, Self

from osler.core.artifact import MANIFEST
from osler.core.errors import InputError
from osler.formats.base import Problems, configure
from osler.formats.registry import get_format
from osler.formats.sources import Source, opened
from osler.tasks.card import TaskCard
from osler.tasks.sources.find import Located, expected, locate
from osler.tasks.sources.keys import carved, key_of, listed
from osler.text.document import Record


class FileSource:
    """The official files of one task."""

    def __init__(self, card: TaskCard, given: Source | None, anywhere: bool = True) -> None:
        if given is None:
            raise InputError(
                f"task {card.name} is read from official files; expected {'; '.join(expected(card, _with_files(card)))}",
                fix=f"Give their folder or archive with --from. {card.access}".strip(),
            )
        self.card = card
        self._given = given
        self._anywhere = anywhere
        self._stack = ExitStack()
        self._problems: dict[str, Problems] = {}
        self._format = configure(get_format(str(card.source.format)), card.source.options)

    def __enter__(self) -> Self:
        self._tree = self._stack.enter_context(opened(self._given))
        try:
            self._located = locate(self.card, self._tree, anywhere=self._anywhere)
        except InputError:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def digests(self) -> dict[str, str]:
        """The hash of each split's files."""
        return {name: found.digest(self._tree) for name, found in self._located.items()}

    @property
    def digest(self) -> str:
        """One hash over all the files."""
        return hashlib.sha256("\n".join(f"{n} {d}" for n, d in sorted(self.digests.items())).encode()).hexdigest()

    def records(self) -> Iterator[tuple[str, Record]]:
        """Every record with its split; a split that others are carved out of is read twice, first for its groups."""
        for name, found in self._located.items():
            self._problems[name] = Problems()
            yield from self._split(name, found)
            self._check(name)

    def facts(self) -> dict[str, Any]:
        """Files, their hashes and their defects by split, and the optional splits that are not there."""
        files = {
            name: {"files": len(found.files), "sha256": self.digests[name]} for name, found in self._located.items()
        }
        facts: dict[str, Any] = {"files": files}
        problems = {name: dict(sorted(found.counts.items())) for name, found in self._problems.items() if found.counts}
        if problems:
            facts["problems"] = problems
        if self._synthetic():
            facts["synthetic"] = True
        absent = [name for name in _with_files(self.card) if name not in self._located]
        if absent:
            facts["absent"] = absent
        return facts

    def _synthetic(self) -> bool:
        """Whether the files are a distribution that `osler tasks synthesize` made: its manifest lies above them."""
        for found in self._located.values():
            name = next(iter(found.files.values()))
            folders = [name[: place + 1] for place, letter in enumerate(name) if letter == "/"]
            for manifest in (f"{folder}{MANIFEST}" for folder in ("", *folders)):
                if manifest in self._tree and b'"kind": "distribution"' in self._tree.read_bytes(manifest):
                    return True
        return False

    def _split(self, name: str, found: Located) -> Iterator[tuple[str, Record]]:
        carves = {n: s.carve for n, s in self.card.source.splits.items() if s.carve and s.carve.of == name}
        if not carves:
            yield from ((name, record) for record in self._selected(name, found, self._problems[name]))
            return
        tree = found.tree(self._tree)
        keys = {target: key_of(carve, tree) for target, carve in carves.items()}
        groups: dict[str, list[str]] = {target: [] for target in carves}
        for record in self._selected(name, found, Problems()):
            for target, key in keys.items():
                groups[target].append(key(record))
        chosen = carved(carves, groups)
        for record in self._selected(name, found, self._problems[name]):
            target = next((target for target, key in keys.items() if key(record) in chosen[target]), name)
            yield target, record

    def _selected(self, name: str, found: Located, problems: Problems) -> Iterator[Record]:
        """The records of a split's files that belong to the split."""
        split = self.card.source.splits[name]
        tree = found.tree(self._tree)
        members = listed(tree, split.listed.file) if split.listed else None
        key = key_of(split.listed, tree) if split.listed else None
        # A list of members is no file of the format.
        data = found.tree(self._tree, leave_out=split.listed.file) if split.listed else tree
        for record in self._format.read(data, problems=problems):
            if any(record.meta.get(meta, "") != value for meta, value in split.where.items()):
                continue
            if members is None or (key is not None and key(record) in members):
                yield record

    def _check(self, name: str) -> None:
        known = self.card.known_problems.get(name, {})
        problems = self._problems[name]
        for kind, count in sorted(problems.counts.items()):
            if kind in self.card.tolerated or count <= known.get(kind, 0):
                continue
            first = next(problem for problem in problems.examples if problem.kind == kind)
            raise InputError(
                f"{count} defects of the kind {kind!r} in the split {name!r}, the card knows {known.get(kind, 0)}; "
                f"the first: {first.detail}",
                where=first.where,
                fix="Correct the files, or state the number under known_problems in a copy of the card",
            )


def _with_files(card: TaskCard) -> list[str]:
    return [name for name, split in card.source.splits.items() if split.files]
