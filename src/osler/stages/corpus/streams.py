"""Bytes, lines and characters of raw files, compressed or not, with errors that say where."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from osler.core.errors import InputError
from osler.stages.corpus.documents import InputFile, Piece

_OPENERS: dict[str, Callable[..., Any]] = {".bz2": bz2.open, ".gz": gzip.open, ".xz": lzma.open}
COMPRESSIONS = tuple(_OPENERS)
_BLOCK = 1 << 22
_BOM = b"\xef\xbb\xbf"


def is_compressed(path: Path) -> bool:
    """Whether the file's ending says that it is compressed."""
    return path.suffix.lower() in _OPENERS


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn a refusal to read, or damage in a compressed file, into one clear InputError."""
    try:
        yield
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile):
        raise InputError(
            "the compressed file is damaged or cut short", where=path, fix="Copy or download it again"
        ) from None
    except FileNotFoundError:
        raise InputError("no such file", where=path, fix="Check the path") from None
    except OSError as error:
        # bz2 reports damaged data as a bare OSError.
        problem = error.strerror or "the data is damaged"
        raise InputError(f"cannot be read: {problem}", where=path, fix="Check the file and its permissions") from None


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading, decompressing by its ending."""
    opener = _OPENERS.get(path.suffix.lower())
    return cast(IO[bytes], opener(path, "rb")) if opener else open(path, "rb")


def read_whole(path: Path) -> bytes:
    """The whole content of a file, without a byte order mark."""
    with reading(path), open_bytes(path) as handle:
        return handle.read().removeprefix(_BOM)


def cut_lines(file: InputFile, size: int) -> list[Piece]:
    """Cut a file of lines into pieces of about `size` bytes that begin and end with whole lines."""
    if is_compressed(file.path) or file.size <= size:
        return [Piece(file, 0, file.size)]
    pieces = []
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
            pieces.append(Piece(file, start, position, rows + 1))
            rows += seen
            start = position
    return pieces


def lines(piece: Piece) -> Iterator[tuple[int, bytes]]:
    """Row number and bytes of every line of a piece, line ends removed."""
    path = piece.file.path
    with reading(path), open_bytes(path) as handle:
        whole = is_compressed(path)
        if piece.start:
            handle.seek(piece.start)
        left = piece.stop - piece.start
        row = piece.first_row
        while whole or left > 0:
            line = handle.readline()
            if not line:
                return
            left -= len(line)
            if row == 1:
                line = line.removeprefix(_BOM)
            yield row, line.rstrip(b"\r\n")
            row += 1


def decode(data: bytes, encoding: str, *, path: Path, row: int) -> str:
    """Decode bytes that begin at a row of a file; the error names the line and the place in it."""
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = row + before.count(b"\n")
        column = error.start - (before.rfind(b"\n") + 1)
        raise InputError(
            f"byte {column + 1} of this line is not valid {encoding}",
            where=f"{path}:{line}",
            fix="Convert the file to UTF-8, or set the source's encoding (often 'latin-1' or 'cp1252')",
        ) from None
