"""Records from official files: find the files, read them through their format, assign each record to its split."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Self

from osler.core.artifact import MANIFEST
from osler.core.console import count_text
from osler.core.errors import InputError
from osler.formats.base import Problems, configure
from osler.formats.registry import get_format
from osler.formats.sources import Source, SourceTree, opened
from osler.tasks.card import Carve, GroupKey, Split, TaskCard
from osler.text.document import Document, Record, TextPair


class FilesMissingError(InputError):
    """Official files of a task are missing; `found` says whether some of them are there."""

    def __init__(self, problem: str, *, where: object, fix: str, found: bool) -> None:
        super().__init__(problem, where=str(where), fix=fix)
        self.found = found


class FileSource:
    """The official files of one task."""

    def __init__(self, card: TaskCard, given: Source | None, anywhere: bool = True) -> None:
        if given is None:
            raise InputError(
                f"task {card.name} needs its official files: {_expected(card, _with_files(card))}",
                fix=f"Give their folder or archive with --from. {card.access}".strip(),
            )
        self.card = card
        self._given = given
        self._anywhere = anywhere
        self._stack = ExitStack()
        self._problems: dict[str, Problems] = {}
        self._read: Counter[str] = Counter()
        if isinstance(given, Path) and not given.exists():
            raise InputError("no such file or folder", where=given, fix="Check --from")
        self._format = configure(get_format(str(card.source.format)), card.source.options)

    def __enter__(self) -> Self:
        self._tree = self._stack.enter_context(opened(self._given))
        try:
            where = self._given if isinstance(self._given, Path) else self._tree.root
            try:
                self.card, self._located = _locate_release(self.card, self._tree, where, anywhere=self._anywhere)
            except FilesMissingError as missing:
                # The patterns of a card may begin with the name of the folder that was given.
                self._tree = self._tree.seen_from_above()
                try:
                    self.card, self._located = _locate_release(self.card, self._tree, where, anywhere=self._anywhere)
                except FilesMissingError:
                    raise missing from None
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def digests(self) -> dict[str, str]:
        """Hash of the files of each split."""
        return {name: found.digest(self._tree) for name, found in self._located.items()}

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(f"{n} {d}" for n, d in sorted(self.digests.items())).encode()).hexdigest()

    def records(self) -> Iterator[tuple[str, Record]]:
        """Yield every record with its split."""
        self._read.clear()
        for name, found in self._located.items():
            self._problems[name] = Problems()
            for split, record in self._split(name, found):
                self._read[split] += 1
                yield split, record
            self._check(name)

    def facts(self) -> dict[str, Any]:
        """The release, files, hashes and defects by split, and the optional splits that are missing."""
        facts: dict[str, Any] = {
            "files": {
                name: {"files": len(found.files), "sha256": self.digests[name]} for name, found in self._located.items()
            }
        }
        problems = {name: dict(sorted(found.counts.items())) for name, found in self._problems.items() if found.counts}
        if problems:
            facts["problems"] = problems
        if self.card.releases:
            facts["release"] = self._release()
        if self._synthetic():
            facts["synthetic"] = True
        absent = [name for name in _with_files(self.card) if name not in self._located]
        if absent:
            facts["absent"] = absent
        return facts

    def _split(self, name: str, found: _Located) -> Iterator[tuple[str, Record]]:
        """Yield the records of one split's files; some may belong to splits that are carved from it."""
        carves = {n: s.carve for n, s in self.card.source.splits.items() if s.carve and s.carve.of == name}
        if not carves:
            yield from ((name, record) for record in self._selected(name, found, self._problems[name]))
            return
        # Read the files twice: the first pass collects the groups to carve from.
        keys = {target: _group_key(carve, found.view(self._tree)) for target, carve in carves.items()}
        groups: dict[str, list[str]] = {target: [] for target in carves}
        for record in self._selected(name, found, Problems()):
            for target, key in keys.items():
                groups[target].append(key(record))
        chosen = _carved(carves, groups)
        for record in self._selected(name, found, self._problems[name]):
            target = next((target for target, key in keys.items() if key(record) in chosen[target]), name)
            yield target, record

    def _selected(self, name: str, found: _Located, problems: Problems) -> Iterator[Record]:
        """Yield the records of the files that belong to the split."""
        split = self.card.source.splits[name]
        tree = data = found.view(self._tree)
        members: set[str] | None = None
        if split.listed:
            lines = tree.lines(_find(tree, split.listed.file))
            members = {line.strip() for _, line in lines if line.strip()}
            key = _group_key(split.listed, tree)
            # The list itself is not a file of the format.
            data = found.view(self._tree, leave_out=split.listed.file)
        for record in self._format.read(data, problems=problems):
            if any(record.meta.get(meta, "") != value for meta, value in split.where.items()):
                continue
            if members is None or key(record) in members:
                yield record

    def _check(self, name: str) -> None:
        """Raise if a split has more defects than its card allows."""
        known = self.card.known_problems.get(name, {})
        problems = self._problems[name]
        for kind, count in sorted(problems.counts.items()):
            if kind in self.card.tolerated or count <= known.get(kind, 0):
                continue
            first = next(problem for problem in problems.examples if problem.kind == kind)
            fix = "Correct the files, or state the number under known_problems in a copy of the card"
            if kind == "duplicate-document":
                fix = f"If the folder holds several distributions, give one of them with --from. Else: {fix.lower()}"
            raise InputError(
                f"split {name!r} has {count} defects of kind {kind!r}, the card allows {known.get(kind, 0)}; "
                f"the first one: {first.detail}",
                where=first.where,
                fix=fix,
            )

    def _release(self) -> str:
        """Tell releases with the same files apart: by a file that only one of them has, or by the number of records."""
        same = [name for name, release in self.card.releases.items() if name == self.card.release or not release.splits]
        names = [name.lower() for found in self._located.values() for name in found.files.values()]
        for release in same:
            marks = [_expression(mark) for mark in self.card.releases[release].marks]
            if any(mark.fullmatch(name) for mark in marks for name in names):
                return release
        # `max` takes the first of several equals: the card's own.
        return max(sorted(same, key=lambda name: name != self.card.release), key=self._agreeing)

    def _agreeing(self, release: str) -> int:
        """Count the numbers of records stated for a release that match what was read."""
        card = self.card.at_release(release)
        stated = [*card.counts.items(), *(card.paper.splits.items() if card.paper else ())]
        return sum(counts.documents == sum(self._read[s] for s in key.split("+")) for key, counts in stated)

    def _synthetic(self) -> bool:
        """Whether the files come from `osler tasks synthesize`, which leaves its manifest above them."""
        for found in self._located.values():
            name = next(iter(found.files.values()))
            folders = [name[: place + 1] for place, letter in enumerate(name) if letter == "/"]
            for manifest in (f"{folder}{MANIFEST}" for folder in ("", *folders)):
                if manifest in self._tree and b'"kind": "distribution"' in self._tree.read_bytes(manifest):
                    return True
        return False


_Files = Mapping[str, str]
"""Name in the tree by name relative to the folder."""


@dataclass(frozen=True)
class _Located:
    """The files of one split: their folder, and their names relative to it."""

    root: str
    files: _Files

    def view(self, tree: SourceTree, leave_out: str = "") -> SourceTree:
        """Return a tree of only these files, named relative to their folder so that ids do not depend on its place."""
        kept = {short: name for short, name in self.files.items() if not leave_out or not short.endswith(leave_out)}
        return tree.view(kept, self.root)

    def digest(self, tree: SourceTree) -> str:
        """Hash of names and contents."""
        total = hashlib.sha256()
        for short, name in sorted(self.files.items()):
            total.update(f"{short}\0{_content(tree, name)}\n".encode())
        return total.hexdigest()


def _locate_release(
    card: TaskCard, tree: SourceTree, where: Path, *, anywhere: bool
) -> tuple[TaskCard, dict[str, _Located]]:
    """Find the card's files, or those of the first release with other files; return that release's card with them."""
    others = [
        card.at_release(name) for name, release in card.releases.items() if release.splits and name != card.release
    ]
    errors: list[FilesMissingError] = []
    for each in (card, *others):
        try:
            return each, _locate(each, tree, where, anywhere=anywhere)
        except FilesMissingError as error:
            errors.append(error)
    # The most useful message is about a release that is partly there.
    raise next((error for error in errors if error.found), errors[0])


def _locate(card: TaskCard, tree: SourceTree, where: Path, *, anywhere: bool) -> dict[str, _Located]:
    """Find the files of every split that has files; with `anywhere`, also in a folder that the card does not name."""
    wanted = {name: card.source.splits[name] for name in _with_files(card)}
    found: Mapping[str, Mapping[str, _Files]] = {name: _roots(tree, split) for name, split in wanted.items()}
    named = {name: _in_named_folder(card, tree, roots) for name, roots in found.items()}
    if any(named[name] for name, split in wanted.items() if not split.optional) or not anywhere:
        found = named
    missing = [name for name, split in wanted.items() if not found[name] and not split.optional]
    if missing:
        raise FilesMissingError(
            f"files of task {card.name} are missing: {_expected(card, missing)}",
            where=where,
            fix=f"Give the folder or archive that has them with --from. {card.access}".strip(),
            found=len(missing) < sum(not split.optional for split in wanted.values()),
        )
    present = {name: roots for name, roots in found.items() if roots}
    common = set.intersection(*(set(roots) for roots in present.values()))
    located = {}
    for name, roots in present.items():
        choice = {root: files for root, files in roots.items() if root in common} or dict(roots)
        located[name] = _single(card, tree, name, choice)
    return located


def _with_files(card: TaskCard) -> list[str]:
    return [name for name, split in card.source.splits.items() if split.files]


def _expected(card: TaskCard, splits: Iterable[str]) -> str:
    """List the files that the user has to provide, by split."""
    folder = f" in {' or '.join(card.source.folder)}" if card.source.folder else ""
    return "; ".join(f"{name}: {', '.join(card.source.splits[name].names)}{folder}" for name in splits)


def _roots(tree: SourceTree, split: Split) -> Mapping[str, _Files]:
    """Return every folder in which all patterns of a split match something, with the matching files."""
    each = [_matches(tree, pattern) for pattern in split.files]
    roots = set.intersection(*(set(matches) for matches in each))
    each += [_matches(tree, pattern) for pattern in split.extra]
    found = {root: {s: n for matches in each for s, n in matches.get(root, {}).items()} for root in sorted(roots)}
    if split.listed:
        lists = [name for files in _matches(tree, split.listed.file).values() for name in files.values()]
        if not lists:
            return {}
        for root, files in found.items():
            # A list may be outside the archive it belongs to: take the nearest one.
            files[split.listed.file] = max(lists, key=lambda name: len(os.path.commonpath([name, root])))
    return found


def _matches(tree: SourceTree, pattern: str) -> dict[str, dict[str, str]]:
    """Return the files that match a pattern, by folder."""
    expression = _expression(pattern)
    # Cheap tests before the expression: the longest fixed part of the pattern, and its fixed end.
    fixed = re.split(r"[*?]+", pattern.lower())
    part, end = max(fixed, key=len), fixed[-1]
    roots: dict[str, dict[str, str]] = defaultdict(dict)
    for name in tree:
        lower = name.lower()
        if lower.endswith(end) and part in lower and (match := expression.fullmatch(lower)):
            cut = len(match[1])
            roots[name[:cut]][name[cut:]] = name
    return roots


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    """Translate a pattern; the first group of the expression is the folder, the second the match."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern.lower())
    special = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    body = "".join(special.get(part, re.escape(part)) for part in parts)
    return re.compile(rf"((?:.*?/)??)({body})")


def _in_named_folder(card: TaskCard, tree: SourceTree, roots: Mapping[str, _Files]) -> dict[str, _Files]:
    if not card.source.folder:
        return dict(roots)
    expressions = [_expression(f"{name}/") for name in card.source.folder]
    # The given folder may itself be the one that the card names.
    full = {root: f"{tree.root.resolve().name}/{root}".lower() for root in roots}
    return {root: files for root, files in roots.items() if any(e.fullmatch(full[root]) for e in expressions)}


def _single(card: TaskCard, tree: SourceTree, split: str, roots: Mapping[str, _Files]) -> _Located:
    """Choose one folder for a split and, inside it, the files of one distribution."""
    root = _largest(card, tree, split, roots)
    files = dict(roots[root])
    layout = card.source.splits[split]
    for pattern in (*layout.files, *layout.extra):
        # `CORPUS*/train.tsv` also matches CORPUS-IOBES/train.tsv, the same split in another copy.
        variants: dict[str, dict[str, str]] = defaultdict(dict)
        for short in [short for short in files if _expression(pattern).fullmatch(short.lower())]:
            parts = short.split("/")
            named = _named_folders(pattern)
            variants[f"{root}{'/'.join(parts[:named])}"]["/".join(parts[named:])] = short
        if len(variants) > 1:
            chosen = _largest(card, tree, split, {v: {k: files[s] for k, s in c.items()} for v, c in variants.items()})
            for variant, shorts in variants.items():
                if variant != chosen:
                    files = {short: name for short, name in files.items() if short not in shorts.values()}
    return _Located(root, files)


def _named_folders(pattern: str) -> int:
    """Count the folders that a pattern names before any `**`."""
    folders = pattern.split("/")[:-1]
    return next((place for place, folder in enumerate(folders) if "**" in folder), len(folders))


def _largest(card: TaskCard, tree: SourceTree, split: str, candidates: Mapping[str, _Files]) -> str:
    """Return the candidate with the most files. Any other must be a copy or a part of it."""
    ordered = sorted(candidates, key=lambda name: (-len(candidates[name]), name.count("/"), name))
    best = candidates[ordered[0]]
    for other in (candidates[name] for name in ordered[1:]):
        if not all(short in best and _same_content(tree, best[short], name) for short, name in other.items()):
            sizes = {name.rstrip("/") or ".": len(files) for name, files in sorted(candidates.items())}
            listed = ", ".join(f"{name} ({count_text(size, 'file')})" for name, size in sizes.items())
            raise InputError(
                f"{len(ordered)} folders have files of split {split!r} of task {card.name}, and they differ: {listed}",
                where=tree.root,
                fix="Give one of them with --from, or move the others away",
            )
    return ordered[0]


def _same_content(tree: SourceTree, first: str, second: str) -> bool:
    return first == second or _content(tree, first) == _content(tree, second)


def _content(tree: SourceTree, name: str) -> str:
    with tree.open_binary(name) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]


def _group_key(key: GroupKey, tree: SourceTree) -> Callable[[Record], str]:
    """Return a function that maps a record to its group. A table named by the key is read from the tree."""
    kind, _, name = key.by.partition(":")
    table: dict[str, str] = {}
    if kind == "table":
        rows = (line.split("\t") for _, line in tree.lines(_find(tree, name)))
        table = {cells[0]: cells[1] for cells in rows if len(cells) > 1}
    pattern = re.compile(key.pattern) if key.pattern else None

    def group(record: Record) -> str:
        value = record.id
        if kind == "meta":
            value = record.meta.get(name, "")
        elif kind == "table":
            value = table.get(record.id, "")
        elif kind == "first" and isinstance(record, TextPair):
            value = record.first
        elif kind == "text" and isinstance(record, Document):
            value = record.text
        match = pattern.search(value) if pattern else None
        return match[1] if match else value

    return group


def _find(tree: SourceTree, name: str) -> str:
    found = tree.names(name, f"*/{name}")
    if not found:
        raise InputError(f"the file {name} is missing", where=tree.root, fix=f"Put {name} next to the other files")
    return found[0]


def _carved(carves: Mapping[str, Carve], groups: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    """Choose the groups of each carved split from the groups of all records, in file order."""
    taken: set[str] = set()
    chosen: dict[str, set[str]] = {}
    for name, carve in carves.items():
        everything = list(dict.fromkeys(groups[name]))
        free = [group for group in everything if group not in taken]
        # Round first: 0.16 of 100 groups must be 16 despite floating point.
        size = math.ceil(round(carve.share * len(everything), 6))
        if carve.method == "tail":
            chosen[name] = set(free[len(free) - size :])
        else:
            chosen[name] = set(sorted(free, key=partial(_rank, carve.seed))[:size])
        taken |= chosen[name]
    return chosen


def _rank(seed: int, group: str) -> bytes:
    return hashlib.sha256(f"{seed}\0{group}".encode()).digest()
