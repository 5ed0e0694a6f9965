"""Finding the official files of a task in whatever folders and archives they lie.

A pattern of the card (`train/*.ann`) is looked for at the end of every name of the tree; what stands before the match is the
folder that holds the corpus. A folder that has every split is taken. Of several, one that has all the files of the others is
taken (a sample beside the whole), and copies with the same content count once; anything else is an error that names them.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial

from osler.core.errors import InputError
from osler.formats.archives import Entry
from osler.formats.sources import SourceTree
from osler.tasks.card import TaskCard
from osler.tasks.layout import Split

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
