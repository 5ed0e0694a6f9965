"""Records from official files: find the files, read them through their format, send each record to its split."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, Self

from osler.core.artifact import MANIFEST
from osler.core.errors import InputError
from osler.formats.archives import Entry
from osler.formats.base import Problems, configure
from osler.formats.registry import get_format
from osler.formats.sources import Source, SourceTree, opened
from osler.tasks.card import Carve, Key, Split, TaskCard
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


_Files = Mapping[str, str]
"""Name below the folder to name in the tree."""


class FilesMissingError(InputError):
    """Official files of a task are not there; `found` says whether any of them is."""

    def __init__(self, problem: str, *, where: object, fix: str, found: bool) -> None:
        super().__init__(problem, where=str(where), fix=fix)
        self.found = found


@dataclass(frozen=True)
class Located:
    """The files of one split: the folder they were found in and their names below it."""

    root: str
    files: _Files

    def tree(self, whole: SourceTree, leave_out: str = "") -> SourceTree:
        """A tree of these files alone, named from their folder on, so that ids do not depend on where it lies."""
        kept = {short: name for short, name in self.files.items() if not leave_out or not short.endswith(leave_out)}
        entries = {short: Entry(partial(whole.open_binary, name), 0) for short, name in kept.items()}
        return SourceTree(whole.root / self.root, entries)

    def digest(self, whole: SourceTree) -> str:
        """A hash of names and contents."""
        total = hashlib.sha256()
        for short, name in sorted(self.files.items()):
            content = hashlib.sha256()
            with whole.open_binary(name) as stream:
                while block := stream.read(1 << 20):
                    content.update(block)
            total.update(f"{short}\0{content.hexdigest()}\n".encode())
        return total.hexdigest()


def locate(card: TaskCard, tree: SourceTree, *, anywhere: bool) -> dict[str, Located]:
    """The files of every split that has files; `anywhere` also takes a folder of another name than the card's."""
    wanted = {name: split for name, split in card.source.splits.items() if split.files}
    found: Mapping[str, Mapping[str, _Files]] = {name: _roots(tree, split) for name, split in wanted.items()}
    named = {name: _in_named_folder(card, tree, roots) for name, roots in found.items()}
    if any(named[name] for name, split in wanted.items() if not split.optional) or not anywhere:
        found = named
    missing = [name for name, split in wanted.items() if not found[name] and not split.optional]
    if missing:
        raise FilesMissingError(
            f"the files of task {card.name} are not all here; missing: {'; '.join(expected(card, missing))}",
            where=tree.root,
            fix=card.access or "Check the folder",
            found=len(missing) < sum(not split.optional for split in wanted.values()),
        )
    present = {name: roots for name, roots in found.items() if roots}
    common = set.intersection(*(set(roots) for roots in present.values()))
    located = {}
    for name, roots in present.items():
        choice = {root: files for root, files in roots.items() if root in common} or dict(roots)
        located[name] = _the_one(card, tree, name, choice)
    return located


def expected(card: TaskCard, splits: Iterable[str]) -> list[str]:
    """What a user has to provide, by split."""
    folder = f" in {' or '.join(card.source.folder)}" if card.source.folder else ""
    found = []
    for name in splits:
        split = card.source.splits[name]
        files = [*split.files, *([split.listed.file] if split.listed else [])]
        found.append(f"{name}: {', '.join(files)}{folder}")
    return found


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    """A pattern as an expression whose first group is the folder before it and whose second is the match."""
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", pattern.lower())
    special = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    body = "".join(special.get(piece, re.escape(piece)) for piece in pieces)
    return re.compile(rf"((?:.*?/)??)({body})")


def _literals(pattern: str) -> tuple[str, str]:
    """The longest fixed part of a pattern and its fixed end: cheap tests before the expression."""
    pieces = re.split(r"[*?]+", pattern.lower())
    return max(pieces, key=len), pieces[-1]


def _matches(tree: SourceTree, pattern: str) -> dict[str, dict[str, str]]:
    expression, (part, end) = _expression(pattern), _literals(pattern)
    roots: dict[str, dict[str, str]] = defaultdict(dict)
    for name in tree:
        lower = name.lower()
        if lower.endswith(end) and part in lower and (match := expression.fullmatch(lower)):
            cut = len(match[1])
            roots[name[:cut]][name[cut:]] = name
    return roots


def _roots(tree: SourceTree, split: Split) -> Mapping[str, _Files]:
    """Every folder in which all the patterns of a split match something, and what they match."""
    each = [_matches(tree, pattern) for pattern in split.files]
    roots = set.intersection(*(set(matches) for matches in each))
    each += [_matches(tree, pattern) for pattern in split.extra]
    found = {root: {s: n for matches in each for s, n in matches.get(root, {}).items()} for root in sorted(roots)}
    if split.listed:
        lists = [name for files in _matches(tree, split.listed.file).values() for name in files.values()]
        if not lists:
            return {}
        for root, files in found.items():
            # A list may lie outside the archive it belongs to: the nearest one is meant.
            files[split.listed.file] = max(lists, key=lambda name: len(os.path.commonpath([name, root])))
    return found


def _in_named_folder(card: TaskCard, tree: SourceTree, roots: Mapping[str, _Files]) -> dict[str, _Files]:
    if not card.source.folder:
        return dict(roots)
    expressions = [_expression(f"{name}/") for name in card.source.folder]
    # The folder that was given may itself be the one the card names.
    full = {root: f"{tree.root.name}/{root}".lower() for root in roots}
    return {root: files for root, files in roots.items() if any(e.fullmatch(full[root]) for e in expressions)}


def _the_one(card: TaskCard, tree: SourceTree, split: str, roots: Mapping[str, _Files]) -> Located:
    ordered = sorted(roots, key=lambda root: (-len(roots[root]), root.count("/"), root))
    best = Located(ordered[0], roots[ordered[0]])
    for other in ordered[1:]:
        mine, theirs = set(best.files), set(roots[other])
        copy = mine == theirs and best.digest(tree) == Located(other, roots[other]).digest(tree)
        if not (copy or mine > theirs):
            raise InputError(
                f"several folders hold files of the split {split!r} of task {card.name}: "
                f"{best.root or '.'} and {other or '.'}",
                where=tree.root,
                fix="Give one of them with --from",
            )
    return best


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
