"""A uniform view of files, folders and archives."""

from __future__ import annotations

import codecs
import csv
import fnmatch
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from osler.core.errors import InputError
from osler.core.parsing import parse_json
from osler.formats.archives import LIMITS, Entry, Limits, scan

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class SourceTree:
    """All files below a path by name, including the members of archives."""

    def __init__(self, root: Path, entries: Mapping[str, Entry], closers: Iterable[Callable[[], None]] = ()) -> None:
        self.root = root
        self._entries = dict(sorted(entries.items()))
        self._closers = list(closers)

    @classmethod
    def open(cls, path: Path | str, limits: Limits = LIMITS) -> SourceTree:
        path = Path(path)
        if not path.exists():
            raise InputError("no such file or folder", where=path, fix="Check the path")
        entries, closers = scan(path, limits)
        single = list(entries) in ([path.name], [path.stem])
        return cls(path.parent if single and not path.is_dir() else path, entries, closers)

    def __enter__(self) -> SourceTree:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        while self._closers:
            self._closers.pop()()

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def names(self, *patterns: str) -> list[str]:
        """Return the sorted names that match any of the shell patterns, ignoring case. `*` also matches `/`."""
        wanted = [pattern.lower() for pattern in patterns]
        return [name for name in self._entries if any(fnmatch.fnmatchcase(name.lower(), p) for p in wanted)]

    def view(self, names: Mapping[str, str], folder: str = "") -> SourceTree:
        """Return part of the tree under new names (new to old), as if it were in a folder of the tree."""
        return SourceTree(self.root / folder, {new: self._entries[old] for new, old in names.items()})

    def seen_from_above(self) -> SourceTree:
        """Return the same files, with names relative to the parent folder."""
        root = self.root.resolve()
        return SourceTree(root.parent, {f"{root.name}/{name}": entry for name, entry in self._entries.items()})

    def where(self, name: str, line: int | None = None) -> str:
        """Return the place for a message: the file and, if known, the line."""
        place = self.root / name
        return f"{place}:{line}" if line is not None else str(place)

    def open_binary(self, name: str) -> BinaryIO:
        return self._entries[name].open()

    def read_bytes(self, name: str) -> bytes:
        with self.open_binary(name) as stream:
            return stream.read()

    def text(self, name: str) -> str:
        """Return the text of a UTF-8 file, unchanged."""
        data = self.read_bytes(name)
        text = self._decode(data, name, 0)
        if "\x00" in text:
            line = text.count("\n", 0, text.index("\x00")) + 1
            raise InputError("NUL character", where=self.where(name, line), fix="Check that the file is text")
        return text

    def lines(self, name: str, *, keep_ends: bool = False) -> Iterator[tuple[int, str]]:
        """Yield the lines of a UTF-8 file, numbered from 1."""
        with self.open_binary(name) as stream:
            for number, raw in enumerate(stream, 1):
                if number == 1:
                    raw = raw.removeprefix(codecs.BOM_UTF8)
                line = self._decode(raw, name, number - 1)
                if "\x00" in line:
                    raise InputError("NUL character", where=self.where(name, number), fix="Check that the file is text")
                yield number, line if keep_ends else line.removesuffix("\n").removesuffix("\r")

    def head(self, name: str, count: int = 5) -> list[str]:
        """Return the first non-empty lines of a file, for detection; none if it is not text."""
        found: list[str] = []
        with self.open_binary(name) as stream:
            sample = stream.read(65536)
        for raw in io.BytesIO(sample.removeprefix(codecs.BOM_UTF8)):
            try:
                line = raw.decode().rstrip("\r\n")
            except UnicodeDecodeError:
                break
            if line.strip():
                found.append(line)
            if len(found) == count:
                break
        return found

    def first_lines(self, pattern: str, count: int) -> list[str]:
        """Return the first non-empty lines of the first file that matches a shell pattern."""
        names = self.names(pattern)
        return self.head(names[0], count) if names else []

    def _decode(self, data: bytes, name: str, lines_before: int) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            line = lines_before + data.count(b"\n", 0, error.start) + 1
            kind = "UTF-16, not UTF-8" if data.startswith(_UTF16) else f"not valid UTF-8 at byte {error.start}"
            place = kind if not lines_before or data.startswith(_UTF16) else f"{kind} of the line"
            raise InputError(place, where=self.where(name, line), fix="Convert the file to UTF-8") from None


Source = Path | str | SourceTree


def opened(source: Source) -> AbstractContextManager[SourceTree]:
    """Open a source for the block. A tree that is already open is left open."""
    return nullcontext(source) if isinstance(source, SourceTree) else SourceTree.open(source)


# The csv module's default limit, 128 KiB, is too small for a long discharge summary.
_FIELD_LIMIT = 1 << 30


def csv_rows(tree: SourceTree, name: str, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yield non-empty rows with their line numbers. Line breaks inside quotes are kept."""
    csv.field_size_limit(_FIELD_LIMIT)
    lines = (line for _, line in tree.lines(name, keep_ends=True))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    number = 1
    try:
        for row in reader:
            if row:
                yield number, row
            number = reader.line_num + 1
    except csv.Error:
        where = tree.where(name, number)
        raise InputError("the rest of the table cannot be read", where=where, fix="Check the quotes") from None


def read_object(tree: SourceTree, name: str) -> dict[str, Any]:
    """Read a JSON file that holds one object. Raises InputError if a key occurs twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise InputError("a key occurs twice in one object", where=tree.where(name), fix="Remove one of them")
        return found

    text = tree.text(name).removeprefix("\ufeff")
    data = parse_json(text, where=tree.where(name), complete_file=True, pairs=unique)
    if not isinstance(data, dict):
        raise InputError("not a JSON object", where=tree.where(name), fix="Check that this is the right file")
    return data
