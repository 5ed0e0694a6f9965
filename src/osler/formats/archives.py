"""List and open files in folders, compressed files and archives without unpacking them.

A stream that grows beyond `Limits` is refused while it is read, whatever its header claims, so that neither a zip bomb
nor nested zip bombs can fill memory or disk.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, cast

from osler.core.errors import InputError

_DAMAGE = (lzma.LZMAError, zlib.error, EOFError, zipfile.BadZipFile, gzip.BadGzipFile, tarfile.TarError)
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2")
_STREAMS = (".gz", ".xz", ".bz2")


@dataclass(frozen=True)
class Limits:
    """How far compressed input may grow. The ratio applies above a floor only: small repetitive files compress well."""

    expanded: int = 64 << 30
    ratio: int = 200
    ratio_floor: int = 1 << 28
    entries: int = 2_000_000
    depth: int = 4
    in_memory: int = 1 << 26


LIMITS = Limits()


@dataclass(frozen=True)
class Entry:
    """One file of a tree: how to open it, and its packed size in bytes."""

    open: Callable[[], BinaryIO]
    size: int


class _Guarded(io.RawIOBase):
    """Counts the output of a decompressor and stops it at the limits."""

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
        allowed = min(self._limits.expanded, max(self._limits.ratio_floor, self._limits.ratio * max(self._packed, 1)))
        if self._count > allowed:
            raise InputError(
                f"refused as a decompression bomb: {self._packed} bytes expand to more than {self._count}",
                where=self._where,
                fix="Unpack the file yourself if you trust it",
            )
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


def _damaged(where: str) -> InputError:
    return InputError("the archive or compressed file is damaged or cut short", where=where, fix="Download it again")


def _buffered(stream: io.RawIOBase) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(stream, 1 << 16))


def _inflate(entry: Entry, suffix: str, where: str, limits: Limits) -> BinaryIO:
    stream = entry.open()
    unpacked: IO[bytes]
    if suffix == ".gz":
        unpacked = cast(IO[bytes], gzip.GzipFile(fileobj=stream))
    elif suffix == ".xz":
        unpacked = lzma.LZMAFile(stream)  # noqa: SIM115 - closed with the guard
    else:
        unpacked = bz2.BZ2File(stream)
    return _buffered(_Guarded(unpacked, entry.size, where, limits))


def _spool(stream: BinaryIO, limits: Limits) -> IO[bytes]:
    spool = tempfile.SpooledTemporaryFile(max_size=limits.in_memory)  # noqa: SIM115 - closed by the tree
    with stream:
        shutil.copyfileobj(stream, spool, 1 << 20)
    spool.seek(0)
    return cast(IO[bytes], spool)


def _safe(name: str, where: str) -> str | None:
    """Return a member's name in POSIX form, or None if it is hidden. A name that points outside raises."""
    path = PurePosixPath(name.replace("\\", "/"))
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

    def add(self, name: str, entry: Entry, where: str, depth: int, top: bool = False) -> None:
        """List one file under its name, or the members of an archive."""
        lower = name.lower()
        if lower.endswith(_TARS) or lower.endswith(".zip"):
            if depth >= self.limits.depth:
                raise InputError(f"archives are nested more than {self.limits.depth} deep", where=where)
            members = self._zip if lower.endswith(".zip") else self._tar
            prefix = "" if top else f"{name}/"
            try:
                for inner, member in members(entry, lower, where):
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
            stream = cast(BinaryIO, _spool(stream, self.limits))
        self.closers.append(stream.close)
        archive = zipfile.ZipFile(stream)
        for info in archive.infolist():
            inner = None if info.is_dir() else _safe(info.filename, where)
            if inner is None:
                continue
            if info.flag_bits & 1:
                raise InputError("the archive is encrypted", where=where, fix="Unpack it yourself and give the folder")
            yield inner, Entry(lambda info=info: self._zip_member(archive, info, where), max(info.compress_size, 1))  # type: ignore[misc]

    def _zip_member(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, where: str) -> BinaryIO:
        try:
            stream = archive.open(info)
        except (*_DAMAGE, NotImplementedError) as error:
            raise _damaged(where) from error
        return _buffered(_Guarded(stream, info.compress_size, f"{where}/{info.filename}", self.limits))

    def _tar(self, entry: Entry, name: str, where: str) -> Iterator[tuple[str, Entry]]:
        suffix = {".tgz": ".gz", ".txz": ".xz", ".tbz2": ".bz2", ".tar": ""}.get(Path(name).suffix, Path(name).suffix)
        # A compressed tar has no index: unpack it once, into memory or an anonymous file, and read members by offset.
        stream = _inflate(entry, suffix, where, self.limits) if suffix else entry.open()
        plain = cast(IO[bytes], stream) if stream.seekable() else _spool(stream, self.limits)
        self.closers.append(plain.close)
        with tarfile.open(fileobj=plain, mode="r:") as archive:
            for member in archive:
                inner = None if member.isdir() else _safe(member.name, where)
                if inner is None:
                    continue
                if not member.isreg() or member.sparse:
                    raise InputError("the archive holds links or devices", where=where, fix="Pack plain files only")
                start, size = member.offset_data, member.size
                yield inner, Entry(lambda start=start, size=size: _buffered(_Slice(plain, start, size)), size)  # type: ignore[misc]


def _open(path: Path) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise InputError(f"cannot open the file: {error.strerror}", where=path, fix="Check its permissions") from error


def _walk(folder: Path) -> Iterator[tuple[str, Path]]:
    visited: set[str] = set()
    for current, folders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(current)
        if real in visited:
            folders.clear()
            continue
        visited.add(real)
        folders[:] = sorted(f for f in folders if not _hidden((f,)))
        for name in sorted(files):
            path = Path(current, name)
            if not _hidden((name,)) and path.is_file():
                yield path.relative_to(folder).as_posix(), path


def scan(path: Path, limits: Limits) -> tuple[dict[str, Entry], list[Callable[[], None]]]:
    """Return every file at or below `path` by name, and what to close when done."""
    scanner = _Scanner(limits)
    files = list(_walk(path)) if path.is_dir() else [(path.name, path)]
    # Plain files first: if a folder has a file and its compressed copy, the plain one gets the name.
    for name, file in sorted(files, key=lambda item: (item[0].lower().endswith(_STREAMS), item[0])):
        entry = Entry(lambda file=file: _open(file), file.stat().st_size)  # type: ignore[misc]
        scanner.add(name, entry, str(file), 0, top=not path.is_dir())
    return scanner.entries, scanner.closers
