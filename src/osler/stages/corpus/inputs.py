"""Find input files, and read their bytes, lines and characters."""

from __future__ import annotations

import bz2
import fnmatch
import glob
import gzip
import hashlib
import io
import json
import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import IO, Any

from osler.core.errors import InputError
from osler.core.extras import require
from osler.formats.archives import files_below, member_name, shown_name
from osler.formats.xml import root_tag
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import FileRange, InputFile
from osler.stages.corpus.readers import READERS

_BLOCK = 1 << 22
_DAMAGE = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile)
_BOM = b"\xef\xbb\xbf"


def find_inputs(sources: Sequence[CorpusSource]) -> list[InputFile]:
    """List the files of all sources in input order; it decides which copy of a document comes first."""
    endings = {ending: name for name in READERS.names() for ending in READERS.get(name).endings}
    roots = {root: name for name in READERS.names() for root in getattr(READERS.get(name), "roots", ())}
    files: list[InputFile] = []
    seen: set[str] = set()
    for index, source in enumerate(sources):
        if source.reader is not None:
            READERS.get(source.reader)  # an unknown name is an error even if no file is found
        for given in source.files:
            for path, name, explicit in _expand(given):
                plain = path.with_suffix("") if path.suffix.lower() in _OPENERS else path
                reader = source.reader or endings.get(plain.suffix.lower())
                if reader is None and plain.suffix.lower() == ".xml":
                    reader = roots.get(_root(path))
                if reader is None and explicit:
                    raise InputError(
                        "no reader for this file type",
                        where=path,
                        fix=f"Name a reader with --reader, or in the source: {', '.join(READERS.names())}",
                    )
                real = os.path.realpath(path)
                if reader is None or real in seen:
                    continue
                seen.add(real)
                files.append(InputFile(path, name, index, _source_name(source, path, reader), reader, _size(path)))
    if not files:
        raise InputError(
            "no files to read", where=sources[0].files[0], fix=f"Known file endings: {', '.join(sorted(endings))}"
        )
    return files


def on_disk(files: Sequence[InputFile]) -> list[Path]:
    """The files that have to be there to read the input, in input order; a zip archive counts once."""
    return list(dict.fromkeys(inside[0] if (inside := _in_zip(file.path)) else file.path for file in files))


def names_digest(files: Sequence[InputFile]) -> str:
    """Hash the file names. Document ids contain them, so they are part of the corpus identity."""
    names = [[file.name, file.source, file.source_name, file.reader] for file in files]
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()


def _expand(given: str) -> Iterator[tuple[Path, str, bool]]:
    """Yield path and name of each file that a path, folder or pattern stands for, and whether it must be readable.

    The members of a zip archive are files below it: `notes.zip` stands for all of them, `notes.zip/*.txt` for some.
    """
    archive = _in_zip(Path(given).expanduser())
    if archive:
        path, pattern = archive
        found = [member for member in _members(path) if fnmatch.fnmatchcase(member, pattern)]
        if not found:
            raise InputError("no file in the archive matches", where=given, fix="Check the pattern")
        yield from ((path / member, shown_name(f"{path.name}/{member}"), True) for member in found)
        return
    for path, name, explicit in _expand_on_disk(given):
        if path.suffix.lower() == ".zip":
            yield from ((path / member, f"{name}/{member}", False) for member in _members(path))
        else:
            yield path, name, explicit


def _expand_on_disk(given: str) -> Iterator[tuple[Path, str, bool]]:
    path = Path(given).expanduser()
    if path.is_dir():
        for found in files_below(path):
            yield found, _name(found, path), False
    elif path.exists():
        yield path, _name(path, path.parent), True
    elif glob.has_magic(str(path)):
        root = Path(*takewhile(lambda part: not glob.has_magic(part), path.parts[:-1]))
        matches = [Path(match) for match in glob.glob(str(path), recursive=True)]
        found_files = sorted(match for match in matches if match.is_file())
        if not found_files:
            raise InputError("no file matches", where=given, fix="Check the pattern")
        for found in found_files:
            yield found, _name(found, root), True
    else:
        raise InputError("no such file or folder", where=given, fix="Check the path")


def _name(path: Path, root: Path) -> str:
    return shown_name(path.relative_to(root).as_posix())


def _source_name(source: CorpusSource, path: Path, reader: str) -> str:
    """Name the source after a file with many documents, or after the folder of files with one document each."""
    if source.name is not None:
        return source.name
    one_document = reader == "text" and source.unit == "file"
    name = path.resolve().parent.name if one_document else path.name.split(".")[0]
    return "".join(character if character.isalnum() or character in "._+-" else "-" for character in name) or "source"


def _root(path: Path) -> str:
    """The root element of an XML file: many formats share the ending."""
    with reading(path), open_bytes(path) as handle:
        stream: Any = handle
        return root_tag(stream.read1(1 << 16))[0]


def _size(path: Path) -> int:
    inside = _in_zip(path)
    with reading(path):
        return _members(inside[0])[inside[1]].compress_size if inside else path.stat().st_size


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn a file that cannot be read, or is damaged, into an InputError."""
    try:
        yield
    except _DAMAGE:
        raise InputError(
            "the compressed file is damaged or truncated", where=path, fix="Copy or download it again"
        ) from None
    except FileNotFoundError:
        raise InputError("no such file", where=path, fix="Check the path") from None
    except OSError as error:
        # bz2 reports damaged data as a bare OSError.
        problem = error.strerror or "the data is damaged"
        raise InputError(f"cannot be read: {problem}", where=path, fix="Check the file and its permissions") from None


class _ZstdFile(io.RawIOBase):
    """The decompressed bytes of a Zstandard file, frame after frame. A truncated frame is an EOFError, as with gzip."""

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


# Each takes an open file and returns its decompressed bytes.
_OPENERS: dict[str, Callable[[Any], Any]] = {
    ".bz2": bz2.BZ2File,
    ".gz": lambda stream: gzip.GzipFile(fileobj=stream),
    ".xz": lzma.LZMAFile,
    ".zst": lambda stream: io.BufferedReader(_ZstdFile(stream), 1 << 16),
}


def _packed(path: Path) -> bool:
    """Whether a file has to be read from its beginning, because it is compressed or in an archive."""
    return path.suffix.lower() in _OPENERS or _in_zip(path) is not None


def _in_zip(path: Path) -> tuple[Path, str] | None:
    """The zip archive that a path leads into, and the member it names."""
    if ".zip" not in str(path).lower():
        return None
    archives = [parent for parent in path.parents if parent.suffix.lower() == ".zip" and parent.is_file()]
    return (archives[0], path.relative_to(archives[0]).as_posix()) if archives else None


@lru_cache(maxsize=8)
def _zip(path: Path) -> zipfile.ZipFile:
    with reading(path):
        return zipfile.ZipFile(path)


@lru_cache(maxsize=8)
def _members(path: Path) -> dict[str, zipfile.ZipInfo]:
    """The files in a zip archive by name, sorted; hidden ones are left out."""
    infos = (info for info in _zip(path).infolist() if not info.is_dir())
    named = {name: info for info in infos if (name := member_name(info.filename, str(path)))}
    return dict(sorted(named.items()))


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, or a member of a zip archive, for reading; decompress it by its ending."""
    inside = _in_zip(path)
    with _open_member(*inside) if inside else open(path, "rb") as stream:
        opener = _OPENERS.get(path.suffix.lower())
        if opener is None:
            yield stream
            return
        with opener(stream) as unpacked:
            yield unpacked


def _open_member(archive: Path, name: str) -> IO[bytes]:
    info = _members(archive).get(name)
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


def read_bytes(path: Path) -> bytes:
    """Read a complete file, without its byte order mark."""
    with reading(path), open_bytes(path) as handle:
        return handle.read().removeprefix(_BOM)


def cut_lines(file: InputFile, size: int) -> list[FileRange]:
    """Cut a file into ranges of about `size` bytes that begin and end at line breaks."""
    if _packed(file.path) or file.size <= size:
        return [FileRange(file, 0, file.size)]
    ranges = []
    start = rows = 0
    with reading(file.path), open(file.path, "rb") as handle:
        while start < file.size:
            seen = 0
            position = start
            while position < min(start + size, file.size):
                block = handle.read(min(_BLOCK, start + size - position))
                if not block:
                    raise InputError("the file became shorter while it was read", where=file.path, fix="Run again")
                seen += block.count(b"\n")
                position += len(block)
            rest = handle.readline() if position < file.size and not block.endswith(b"\n") else b""
            position += len(rest)
            seen += rest.endswith(b"\n")
            ranges.append(FileRange(file, start, position, rows + 1))
            rows += seen
            start = position
    return ranges


def lines(file_range: FileRange) -> Iterator[tuple[int, bytes]]:
    """Yield row number and bytes of every line, without line ends."""
    path = file_range.file.path
    with reading(path), open_bytes(path) as handle:
        # A compressed file is one range, and its size says nothing about the text in it.
        to_the_end = _packed(path)
        if file_range.start:
            handle.seek(file_range.start)
        left = file_range.stop - file_range.start
        row = file_range.first_row
        while to_the_end or left > 0:
            line = handle.readline()
            if not line:
                return
            left -= len(line)
            if row == 1:
                line = line.removeprefix(_BOM)
            yield row, line.rstrip(b"\r\n")
            row += 1


def decode(data: bytes, encoding: str, *, path: Path, row: int) -> str:
    """Decode bytes that begin at a row of a file. An error names the line and the byte in it."""
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = row + before.count(b"\n")
        column = error.start - (before.rfind(b"\n") + 1)
        raise InputError(
            f"byte {column + 1} of this line is not valid {encoding}",
            where=f"{path}:{line}",
            fix="Convert the file to UTF-8, or give its encoding, often --encoding latin-1 or cp1252 (in a recipe: the "
            "source's encoding)",
        ) from None
