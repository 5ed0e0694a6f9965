"""List and open files in folders, compressed files and archives without unpacking them.

A stream that grows beyond `Limits` while it is read is refused, whatever its header claims. So are a zip whose members share
bytes, one that lists too many members, and nested archives that are too large in total, so no archive can fill memory or disk.
Symbolic links that lead out of a folder are not followed.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, cast

from osler.core.errors import InputError
from osler.core.extras import require
from osler.core.logs import get_logger

log = get_logger(__name__)

_DAMAGE = (lzma.LZMAError, zlib.error, EOFError, zipfile.BadZipFile, gzip.BadGzipFile, tarfile.TarError, struct.error)
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2", ".tar.zst", ".tzst")


class _ZstdFile(io.RawIOBase):
    """Decompresses a Zstandard file, frame by frame. A truncated frame raises EOFError, as with gzip."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._zstandard: Any = require("zstandard", "zstd")
        self._frame: Any = None
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            packed = (self._frame.unused_data if self._frame and self._frame.eof else b"") or self._stream.read(1 << 16)
            if self._frame is None or self._frame.eof:
                self._frame = self._zstandard.ZstdDecompressor().decompressobj() if packed else None
            if not packed:
                if self._frame:
                    raise EOFError
                return 0
            try:
                self._ready = self._frame.decompress(packed)
            except self._zstandard.ZstdError:
                raise zlib.error from None
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    def close(self) -> None:
        self._stream.close()
        super().close()


OPENERS: dict[str, Callable[[Any], Any]] = {
    ".bz2": bz2.BZ2File,
    ".gz": lambda stream: gzip.GzipFile(fileobj=stream),
    ".xz": lzma.LZMAFile,
    ".zst": lambda stream: io.BufferedReader(_ZstdFile(stream), 1 << 16),
}
"""Maps a suffix to a function that wraps an open file in a decompressing stream."""
_STREAMS = tuple(OPENERS)
_SHORT = {".tgz": ".gz", ".txz": ".xz", ".tbz2": ".bz2", ".tzst": ".zst", ".tar": ""}


def is_archive(name: str) -> bool:
    """Whether a file of this name is an archive."""
    return name.lower().endswith((*_TARS, ".zip"))


@dataclass(frozen=True)
class Limits:
    """Limits on the expansion of compressed input. The ratio applies only above a floor: small repetitive files compress well."""

    expanded: int = 64 << 30
    ratio: int = 200
    ratio_floor: int = 1 << 28
    entries: int = 2_000_000
    members: int = 500_000
    """Total number of files in all archives of a source."""
    directory: int = 1 << 24
    """Bytes of the member list of one zip, which is read at once before any member can be counted."""
    depth: int = 4
    in_memory: int = 1 << 26
    """Bytes of unpacked archives to keep in memory; the rest goes to temporary files."""

    def allowed(self, packed: int) -> int:
        """Return how many bytes this many packed bytes may expand to."""
        return min(self.expanded, max(self.ratio_floor, self.ratio * max(packed, 1)))


LIMITS = Limits()


@dataclass(frozen=True)
class Entry:
    """One file of a tree: how to open it, and its packed size in bytes."""

    open: Callable[[], BinaryIO]
    size: int


class _Guarded(io.RawIOBase):
    """Counts the output of a decompressor and raises beyond the limits."""

    def __init__(self, stream: IO[bytes], packed: int, where: str, limits: Limits) -> None:
        self._stream, self._packed, self._where, self._limits = stream, packed, where, limits
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast(bytearray, buffer))
        try:
            data = self._stream.read(len(view))
        except _DAMAGE as error:
            raise _damaged(self._where) from error
        except OSError as error:
            if isinstance(error, gzip.BadGzipFile) or error.errno is None:  # bz2 raises a bare OSError
                raise _damaged(self._where) from error
            raise
        self._count += len(data)
        if self._count > self._limits.allowed(self._packed):
            raise _bomb(f"{self._packed} bytes expand to more than {self._count}", self._where)
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Slice(io.RawIOBase):
    """A part of a seekable file: one member of an uncompressed tar."""

    def __init__(self, stream: IO[bytes], start: int, size: int) -> None:
        self._stream, self._position, self._end = stream, start, start + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast(bytearray, buffer))
        self._stream.seek(self._position)
        data = self._stream.read(min(len(view), self._end - self._position))
        if not data and self._position < self._end and len(view):
            raise _damaged("tar member")
        self._position += len(data)
        view[: len(data)] = data
        return len(data)


class _Directory(io.BufferedIOBase):
    """A zip file whose member list, which zipfile reads with one call, may not exceed the limit."""

    def __init__(self, stream: BinaryIO, where: str, limits: Limits) -> None:
        self._stream, self._where, self._limit = stream, where, limits.directory

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > self._limit:
            raise _too_many(self._where)
        return self._stream.read(-1 if size is None else size)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _damaged(where: str) -> InputError:
    return InputError("the archive or compressed file is damaged or cut short", where=where, fix="Download it again")


def _bomb(detail: str, where: str) -> InputError:
    fix = "If you trust it, unpack it yourself and give the folder"
    return InputError(f"refused as a decompression bomb: {detail}", where=where, fix=fix)


def _too_many(where: str) -> InputError:
    return InputError("the archive holds too many files", where=where, fix=_UNPACK)


_UNPACK = "Unpack it yourself and give the folder"


def _buffered(stream: io.RawIOBase) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(stream, 1 << 16))


def part_of(stream: IO[bytes], start: int, size: int) -> BinaryIO:
    """Return a separate reader for a part of a seekable file. Closing it leaves the file open."""
    return _buffered(_Slice(stream, start, size))


def _inflate(entry: Entry, suffix: str, where: str, limits: Limits) -> BinaryIO:
    return _buffered(_Guarded(OPENERS[suffix](entry.open()), entry.size, where, limits))


def member_name(name: str, where: str) -> str | None:
    """Return a member's name in POSIX form, or None if it is hidden. A name that points outside raises."""
    path = PurePosixPath(shown_name(name).replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or (path.parts and path.parts[0].endswith(":")):
        raise InputError("a member's name points outside the archive", where=where, fix="Do not use this archive")
    return None if _hidden(path.parts) else str(path)


def _hidden(parts: tuple[str, ...]) -> bool:
    return not parts or any(part.startswith(".") or part == "__MACOSX" for part in parts)


class _Scanner:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.entries: dict[str, Entry] = {}
        self.closers: list[Callable[[], None]] = []
        self._members = 0
        self._unpacked = 0  # total bytes of archives that were unpacked to list their members

    def add(self, name: str, entry: Entry, where: str, depth: int, top: bool = False) -> None:
        """Add a file under its name, or the members of an archive."""
        lower = name.lower()
        if is_archive(lower):
            if depth >= self.limits.depth:
                raise InputError(f"archives are nested more than {self.limits.depth} deep", where=where)
            members = self._zip if lower.endswith(".zip") else self._tar
            prefix = "" if top else f"{name}/"
            try:
                for inner, member in members(entry, lower, where):
                    self._members += 1
                    if self._members > self.limits.members:
                        raise _too_many(where)
                    self.add(prefix + inner, member, f"{where}/{inner}", depth + 1)
            except _DAMAGE as error:
                raise _damaged(where) from error
            return
        suffix = next((s for s in _STREAMS if lower.endswith(s)), "")
        shown = name[: len(name) - len(suffix)]
        if suffix and shown not in self.entries:
            packed, name = entry, shown
            entry = Entry(lambda: _inflate(packed, suffix, where, self.limits), packed.size)
        self.entries[name] = entry
        if len(self.entries) > self.limits.entries:
            raise InputError(f"more than {self.limits.entries} files", where=where, fix="Give a smaller folder")

    def _zip(self, entry: Entry, name: str, where: str) -> Iterator[tuple[str, Entry]]:
        stream = entry.open()
        if not stream.seekable():
            stream = self._spool(stream, entry.size, where)
        self.closers.append(stream.close)
        archive = _opened_zip(stream, where, self.limits)
        packed, expanded, size = 0, 0, stream.seek(0, io.SEEK_END)
        for info in archive.infolist():
            packed, expanded = packed + info.compress_size, expanded + info.file_size
            if packed > size:
                raise _bomb("its members share their bytes", where)
            # No member can be read beyond its listed size, so the sum of sizes bounds the output.
            if expanded > self.limits.allowed(size):
                raise _bomb(f"{size} bytes expand to more than {expanded}", where)
            if not info.filename:  # `is_dir` fails on it
                raise _damaged(where)
            inner = None if info.is_dir() else member_name(info.filename, where)
            if inner is None:
                continue
            if info.flag_bits & 1:
                raise InputError("the archive is encrypted", where=where, fix=_UNPACK)
            yield inner, Entry(lambda info=info: self._zip_member(archive, info, where), max(info.compress_size, 1))  # type: ignore[misc]

    def _zip_member(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, where: str) -> BinaryIO:
        try:
            stream = archive.open(info)
        except NotImplementedError:
            raise _unsupported(where) from None
        except (*_DAMAGE, OSError, ValueError) as error:  # an offset outside the file
            raise _damaged(where) from error
        return _buffered(_Guarded(stream, info.compress_size, f"{where}/{info.filename}", self.limits))

    def _tar(self, entry: Entry, name: str, where: str) -> Iterator[tuple[str, Entry]]:
        suffix = _SHORT.get(Path(name).suffix, Path(name).suffix)
        # A compressed tar has no index: unpack it once, into memory or an anonymous file, and read members by offset.
        stream = _inflate(entry, suffix, where, self.limits) if suffix else entry.open()
        plain = stream if stream.seekable() else self._spool(stream, entry.size, where)
        self.closers.append(plain.close)
        with tarfile.open(fileobj=plain, mode="r:") as archive:
            for member in archive:
                archive.members.clear()  # type: ignore[attr-defined]  # the list would grow without bound
                inner = None if member.isdir() else member_name(member.name, where)
                if inner is None:
                    continue
                if not member.isreg() or member.sparse:
                    raise InputError("the archive holds links or devices", where=where, fix="Pack plain files only")
                start, size = member.offset_data, member.size
                yield inner, Entry(lambda start=start, size=size: part_of(plain, start, size), size)  # type: ignore[misc]

    def _spool(self, stream: BinaryIO, packed: int, where: str) -> BinaryIO:
        """Unpack an archive into memory or, once the total is large, into a temporary file."""
        room = max(self.limits.in_memory - self._unpacked, 1)
        spool = tempfile.SpooledTemporaryFile(max_size=room)  # noqa: SIM115 - closed by the tree
        with stream:
            while block := stream.read(1 << 20):
                self._unpacked += len(block)
                if self._unpacked > self.limits.expanded:
                    spool.close()
                    raise _bomb(f"nested archives expand to more than {self._unpacked} bytes", where)
                spool.write(block)
        spool.seek(0)
        return cast(BinaryIO, spool)


def _opened_zip(stream: BinaryIO, where: str, limits: Limits) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(cast(BinaryIO, _Directory(stream, where, limits)))
    except NotImplementedError:
        raise _unsupported(where) from None
    except UnicodeDecodeError:
        raise InputError("a member's name is not valid UTF-8", where=where, fix=_UNPACK) from None
    except (OSError, ValueError) as error:  # an offset outside the file
        raise _damaged(where) from error


def _unsupported(where: str) -> InputError:
    problem = "the zip archive uses a version or a compression that is not supported"
    return InputError(problem, where=where, fix=_UNPACK)


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading in binary mode. Raises InputError if it cannot be opened."""
    try:
        return open(path, "rb")
    except OSError as error:
        raise InputError(f"cannot open the file: {error.strerror}", where=path, fix="Check its permissions") from error


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, sorted, each folder's files before its subfolders, without hidden files.

    Symbolic links are followed if they lead to something inside the folder. The others are reported in one warning.
    """
    root = Path(os.path.realpath(folder))
    visited: set[str] = set()
    outside: list[Path] = []

    def inside(path: Path) -> bool:
        if path.is_symlink() and not (path.exists() and Path(os.path.realpath(path)).is_relative_to(root)):
            outside.append(path)
            return False
        return True

    for current, folders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(current)
        if real in visited:
            folders.clear()
            continue
        visited.add(real)
        folders[:] = sorted(f for f in folders if not _hidden((f,)) and inside(Path(current, f)))
        for name in sorted(files):
            path = Path(current, name)
            if not _hidden((name,)) and inside(path) and path.is_file():
                yield path
    if outside:
        _warn_not_followed(len(outside), outside[0])


@cache  # warn once, although a command lists a folder more than once
def _warn_not_followed(count: int, first: Path) -> None:
    log.warning(
        "input.links_not_followed",
        "symbolic links that are broken or lead out of the folder are not followed ({links}, the first is {first}). "
        "Copy the files, or name their own folder.",
        links=count,
        first=first,
    )


def shown_name(path: str) -> str:
    """Return a file name as valid text: names on disk or in a tar need not be UTF-8, but ids and messages must be."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def scan(path: Path, limits: Limits) -> tuple[dict[str, Entry], list[Callable[[], None]]]:
    """Return every file at or below `path` by name, and the functions to call when done."""
    scanner = _Scanner(limits)
    found = list(files_below(path)) if path.is_dir() else [path]
    files = [(shown_name(file.relative_to(path if path.is_dir() else path.parent).as_posix()), file) for file in found]
    # Plain files first: of a file and its compressed copy in one folder, the plain one gets the name.
    for name, file in sorted(files, key=lambda item: (item[0].lower().endswith(_STREAMS), item[0])):
        entry = Entry(lambda file=file: open_file(file), file.stat().st_size)  # type: ignore[misc]
        scanner.add(name, entry, str(file), 0, top=not path.is_dir())
    return scanner.entries, scanner.closers
