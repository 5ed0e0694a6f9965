"""Which files belong to which split, seen from the names of folders and files, and what is carved out where a split is missing.

A name speaks for a split when one of its words does: `train/`, `BC5-dev.txt`, `Test_Data.zip`. Folders are asked first. File
names are asked only where a file holds many records or every file has such a word: a note called `blood-test.txt` is no test
set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from osler.formats.base import Format
from osler.formats.sources import SourceTree

_WORDS = {
    "train": {"train", "training", "trainset", "trn"},
    "dev": {"dev", "devel", "development", "devset", "valid", "validation", "val"},
    "test": {"test", "testing", "testset", "tst"},
}
_SPLIT_OF = {word: split for split, words in _WORDS.items() for word in words}
# TrainingSet is two words, TRAIN is one.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
ALL = "**"
SHARES = {"dev": 0.1, "test": 0.2}


@dataclass(frozen=True)
class Plan:
    """The files of each split by pattern, the splits to carve out of train, and how this was seen."""

    files: Mapping[str, tuple[str, ...]]
    names: Mapping[str, tuple[str, ...]]
    carved: tuple[str, ...]
    how: str
    left: tuple[str, ...] = field(default=())
    """Files of the format that belong to no split."""


def plan_splits(tree: SourceTree, format_: Format) -> Plan:
    """Sort the files of a tree into splits."""
    data = tree.names(*(f"*{suffix}" for suffix in format_.suffixes)) or list(tree)
    by_folder = {name: _folder_hint(name) for name in data}
    if _usable(by_folder.values()):
        return _by_folder(tree, data)
    by_name = {name: _hint(name.rpartition("/")[2]) for name in data}
    # Names that all speak of training are one set whose name says so, not a split.
    several = len({*by_name.values()} - {None}) > 1
    if several and _usable(by_name.values()) and (format_.layout == "file" or all(by_name.values())):
        found = {s: tuple(name for name in data if by_name[name] == s) for s in _WORDS if s in by_name.values()}
        left = tuple(name for name in data if by_name[name] is None)
        return Plan(found, found, _missing(found), "file names", left)
    everything = {"train": (ALL,)} if len(data) != 1 else {"train": (data[0],)}
    return Plan(everything, {"train": tuple(tree)}, _missing(everything), "no name speaks of a split")


def _usable(hints: Iterable[str | None]) -> bool:
    """Without a training set, words in names mean something else."""
    return "train" in set(hints)


def _by_folder(tree: SourceTree, data: list[str]) -> Plan:
    folders: dict[str, dict[str, None]] = {split: {} for split in _WORDS}
    names: dict[str, list[str]] = {split: [] for split in _WORDS}
    # Files of other kinds in the folder of a split (the texts beside the annotations) belong to it too.
    for name in tree:
        split = _folder_hint(name)
        if split is not None:
            folders[split][f"{_folder_of(name)}/{ALL}"] = None
            names[split].append(name)
    left = tuple(name for name in data if _folder_hint(name) is None)
    files = {split: tuple(patterns) for split, patterns in folders.items() if patterns}
    return Plan(files, {s: tuple(n) for s, n in names.items() if n}, _missing(files), "folder names", left)


def _missing(files: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(split for split in SHARES if split not in files)


def _folder_hint(name: str) -> str | None:
    """The split the innermost speaking folder of a file speaks for."""
    hints = [hint for folder in name.split("/")[:-1] if (hint := _hint(folder))]
    return hints[-1] if hints else None


def _folder_of(name: str) -> str:
    folders = name.split("/")[:-1]
    depth = max(index for index, folder in enumerate(folders) if _hint(folder))
    return "/".join(folders[: depth + 1])


def _hint(name: str) -> str | None:
    words = (word.lower() for word in _WORD.findall(name))
    splits = {_SPLIT_OF[word] for word in words if word in _SPLIT_OF}
    return splits.pop() if len(splits) == 1 else None
