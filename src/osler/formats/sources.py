"""Where input comes from: one view on files, folders and archives, however they are packed.

`SourceTree.open(path)` gives the files below a path under virtual names with "/" between the parts. An archive (.zip,
.tar and compressed tar) counts as a folder, also inside another archive; a compressed file (.gz, .xz, .bz2) goes by
its name without that suffix. Nothing is unpacked to disk beside anonymous temporary files; member names that point
outside, links, and archives that grow out of proportion are refused. Hidden files and the `__MACOSX` folders some
archives carry are not listed.

Text is UTF-8, strictly. `text` returns every character of a file as it stands, a byte order mark and carriage returns
included, because stand-off offsets count them (MEDDOCAN counts its marks). `lines` serves files that are themselves
read line by line (annotations, tables): there a leading mark and the line ends, "\\n" or "\\r\\n", are dropped. Only
"\\n" ends a line.
"""

from __future__ import annotations

import codecs
import fnmatch
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO

from osler.core.errors import InputError
from osler.formats.archives import LIMITS, Entry, Limits, scan

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class SourceTree:
    """The files below one path, archives opened, by virtual name."""

    def __init__(self, root: Path, entries: Mapping[str, Entry], closers: Iterable[Callable[[], None]] = ()) -> None:
        self.root = root
        self._entries = dict(sorted(entries.items()))
        self._closers = list(closers)

    @classmethod
    def open(cls, path: Path | str, limits: Limits = LIMITS) -> SourceTree:
        """Look into a file, folder or archive."""
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
        """Let go of open archives and temporary files."""
        while self._closers:
            self._closers.pop()()

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def names(self, *patterns: str) -> list[str]:
        """The names that match any of the shell patterns (case does not matter, `*` crosses folders), sorted."""
        wanted = [pattern.lower() for pattern in patterns]
        return [name for name in self._entries if any(fnmatch.fnmatchcase(name.lower(), p) for p in wanted)]

    def select(self, *patterns: str) -> SourceTree:
        """The part of the tree whose names match, sharing the open archives; close the whole, not the part."""
        return SourceTree(self.root, {name: self._entries[name] for name in self.names(*patterns)})

    def where(self, name: str, line: int | None = None) -> str:
        """A place for messages: the file and, where known, the line."""
        place = self.root / name
        return f"{place}:{line}" if line is not None else str(place)

    def open_binary(self, name: str) -> BinaryIO:
        """The bytes of one file as a stream."""
        return self._entries[name].open()

    def read_bytes(self, name: str) -> bytes:
        """The bytes of one file."""
        with self.open_binary(name) as stream:
            return stream.read()

    def text(self, name: str) -> str:
        """All characters of one UTF-8 file, as they stand."""
        data = self.read_bytes(name)
        text = self._decode(data, name, 0)
        if "\x00" in text:
            line = text.count("\n", 0, text.index("\x00")) + 1
            raise InputError("NUL character", where=self.where(name, line), fix="Check that the file is text")
        return text

    def lines(self, name: str, *, keep_ends: bool = False) -> Iterator[tuple[int, str]]:
        """The lines of one UTF-8 file, numbered from 1, as a stream."""
        with self.open_binary(name) as stream:
            for number, raw in enumerate(stream, 1):
                if number == 1:
                    raw = raw.removeprefix(codecs.BOM_UTF8)
                line = self._decode(raw, name, number - 1)
                if "\x00" in line:
                    raise InputError("NUL character", where=self.where(name, number), fix="Check that the file is text")
                yield number, line if keep_ends else line.removesuffix("\n").removesuffix("\r")

    def head(self, name: str, count: int = 5) -> list[str]:
        """The first lines of a file that has any, or none where it is not text: for detection."""
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
    """A tree to read from: the one given, left open for its owner, or one opened here and closed after use."""
    return nullcontext(source) if isinstance(source, SourceTree) else SourceTree.open(source)
