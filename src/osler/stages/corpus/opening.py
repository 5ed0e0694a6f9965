"""Open files for reading: plain ones, compressed ones, and members of zip archives.

A member is a path below its archive: `notes.zip/2024/a.txt`.
"""

from __future__ import annotations

import gzip
import lzma
import socket
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO

from osler.core.errors import InputError
from osler.formats.archives import OPENERS, member_name

_DAMAGE = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn the errors of an unreadable or damaged file into an InputError."""
    try:
        yield
    except FileNotFoundError:
        raise InputError("no such file", where=path, fix="Check the path") from None
    except (*_DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.strerror:
            fix = "Check the file and its permissions"
            raise InputError(f"cannot be read: {error.strerror}", where=path, fix=fix) from None
        # Damage; bz2 and gzip report it as an OSError without a number.
        problem = "the compressed file is damaged or truncated"
        raise InputError(problem, where=path, fix="Copy or download it again") from None


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, or a member of a zip archive, for reading; decompress it by its ending."""
    inside = in_zip(path)
    if inside is None and path.suffix.lower() == ".zip":
        zip_members(path)  # raises: only a damaged archive is read as one file
    with _open_member(*inside) if inside else open(path, "rb") as stream:
        opener = OPENERS.get(path.suffix.lower())
        if opener is None:
            yield stream
            return
        with opener(stream) as unpacked:
            yield unpacked


def _open_member(archive: Path, name: str) -> IO[bytes]:
    info = zip_members(archive).get(name)
    if info is None:
        raise FileNotFoundError
    try:
        return _zip(archive).open(info)
    except (RuntimeError, NotImplementedError):  # a password, or an unknown compression
        raise InputError(
            "this file in the archive is encrypted, or its compression is not supported",
            where=archive / name,
            fix="Unpack the archive yourself and give the folder",
        ) from None


def is_packed(path: Path) -> bool:
    """Whether a file is compressed or in an archive, so that it must be read from its beginning."""
    return path.suffix.lower() in OPENERS or in_zip(path) is not None


def in_zip(path: Path) -> tuple[Path, str] | None:
    """Return the zip archive that a path leads into and the member it names; None for other paths."""
    if ".zip" not in str(path).lower():
        return None
    archives = [parent for parent in path.parents if parent.suffix.lower() == ".zip" and parent.is_file()]
    return (archives[0], path.relative_to(archives[0]).as_posix()) if archives else None


def stored_size(path: Path) -> int:
    """Return the bytes that a file or zip member takes on disk; 0 if it cannot be opened, which is recorded when it is read."""
    inside = in_zip(path)
    try:
        with reading(path):
            return zip_members(inside[0])[inside[1]].compress_size if inside else path.stat().st_size
    except (InputError, KeyError):
        return 0


def check_unchanged(path: Path, size: int) -> None:
    """Raise if a file has changed since it was found, or is not visible on this node of a cluster."""
    if stored_size(path) != size:
        raise InputError(
            f"the file is missing or has changed since the run began (seen on {socket.gethostname()})",
            where=path,
            fix="Run again. On a cluster, all nodes must see the same files under the same path",
        )


@lru_cache(maxsize=8)
def _zip(path: Path) -> zipfile.ZipFile:
    with reading(path):
        return zipfile.ZipFile(path)


@lru_cache(maxsize=8)
def zip_members(path: Path) -> dict[str, zipfile.ZipInfo]:
    """Return the files in a zip archive by name, sorted; hidden ones are left out."""
    infos = (info for info in _zip(path).infolist() if not info.is_dir())
    named = {name: info for info in infos if (name := member_name(info.filename, str(path)))}
    return dict(sorted(named.items()))
