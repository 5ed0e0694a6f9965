"""Find input files, and read their bytes, lines and characters."""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

from osler.core.errors import InputError
from osler.formats.archives import OPENERS, files_below, shown_name
from osler.formats.xml import root_tag
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import FileRange, InputFile
from osler.stages.corpus.opening import in_zip, is_packed, open_bytes, reading, stored_size, zip_members
from osler.stages.corpus.readers import READERS

LONGEST = 64 << 20
"""Maximum bytes of a line, or a file of plain text, read as a document. Anything longer is damaged, or not one document."""
_BLOCK = 1 << 22
_BOM = b"\xef\xbb\xbf"
_LINE_READERS = ("jsonl", "moses", "patents")


def find_inputs(sources: Sequence[CorpusSource]) -> list[InputFile]:
    """List the files of all sources in input order, which decides which copy of a document comes first."""
    endings = {ending: name for name in READERS.names() for ending in READERS.get(name).endings}
    roots = {root: name for name in READERS.names() for root in getattr(READERS.get(name), "roots", ())}
    files: list[InputFile] = []
    seen: set[str] = set()
    for index, source in enumerate(sources):
        if source.reader is not None:
            READERS.get(source.reader)  # an unknown name is an error even if no file is found
        for given in source.files:
            for path, name, explicit in _expand(given):
                reader = source.reader or _reader(path, endings, roots)
                if reader in _LINE_READERS and "\n".encode(source.encoding) != b"\n":
                    raise InputError(
                        f"the reader {reader} does not support {source.encoding}", where=path, fix="Convert it to UTF-8"
                    )
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
                files.append(
                    InputFile(path, name, index, _source_name(source, path, reader), reader, stored_size(path))
                )
    if not files:
        raise InputError(
            "no files to read", where=sources[0].files[0], fix=f"Known file endings: {', '.join(sorted(endings))}"
        )
    return files


def on_disk(files: Sequence[InputFile]) -> list[Path]:
    """List the readable files on disk in input order; a zip archive counts once."""
    paths = dict.fromkeys(inside[0] if (inside := in_zip(file.path)) else file.path for file in files)
    return [path for path in paths if os.access(path, os.R_OK)]


def names_digest(files: Sequence[InputFile]) -> str:
    """Hash the file names. Document ids contain them, so they are part of the corpus identity."""
    names = [[file.name, file.source, file.source_name, file.reader] for file in files]
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()


def _expand(given: str) -> Iterator[tuple[Path, str, bool]]:
    """Yield path and name of each file that a path, folder or pattern stands for, and whether it must have a reader.

    The members of a zip archive are files below it: `notes.zip` stands for all of them, `notes.zip/*.txt` for some.
    """
    archive = in_zip(Path(given).expanduser())
    if archive:
        path, pattern = archive
        found = [member for member in zip_members(path) if fnmatch.fnmatchcase(member, pattern)]
        if not found:
            raise InputError("no file in the archive matches", where=given, fix="Check the pattern")
        yield from ((path / member, shown_name(f"{path.name}/{member}"), True) for member in found)
        return
    for path, name, explicit in _expand_on_disk(given):
        try:
            members = zip_members(path) if path.suffix.lower() == ".zip" else None
        except InputError:
            members = None  # reading the archive as one file gives the same error, which is then recorded
        if members is None:
            yield path, name, explicit
        else:
            yield from ((path / member, f"{name}/{member}", False) for member in members)


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
        # Broken links are included: they are recorded when they are read.
        found_files = sorted(match for match in matches if not match.is_dir())
        if not found_files:
            raise InputError("no file matches", where=given, fix="Check the pattern")
        for found in found_files:
            yield found, _name(found, root), True
    else:
        raise InputError("no such file or folder", where=given, fix="Check the path")


def _name(path: Path, root: Path) -> str:
    return shown_name(path.relative_to(root).as_posix())


def _source_name(source: CorpusSource, path: Path, reader: str) -> str:
    """Name the source after a file with many documents, or after the folder of files that belong together."""
    if source.name is not None:
        return source.name
    one_document = reader == "text" and source.unit == "file"
    one_of_many = one_document or hasattr(READERS.get(reader), "roots")  # XML is published in many files
    name = path.resolve().parent.name if one_of_many else path.name.split(".")[0]
    return "".join(character if character.isalnum() or character in "._+-" else "-" for character in name) or "source"


def _reader(path: Path, endings: Mapping[str, str], roots: Mapping[str, str]) -> str | None:
    """Choose a reader by file ending; for XML by root element, as many formats share the ending."""
    plain = path.with_suffix("") if path.suffix.lower() in OPENERS else path
    ending = plain.suffix.lower()
    if ending == ".zip" and in_zip(path) is None:
        return "text"  # a damaged archive; any reader reports it
    if ending != ".xml":
        return endings.get(ending)
    try:
        with reading(path), open_bytes(path) as handle:
            stream: Any = handle
            root = root_tag(stream.read1(1 << 16))[0]
    except InputError:
        root = ""
    return roots.get(root) if root else min(roots.values())  # without a root, any XML reader reports what is wrong


def read_bytes(path: Path) -> bytes:
    """Read a file without its byte order mark. A file too long for a document is cut off a little beyond LONGEST."""
    with reading(path), open_bytes(path) as handle:
        return handle.read(LONGEST + len(_BOM) + 1).removeprefix(_BOM)


def cut_lines(file: InputFile, size: int) -> list[FileRange]:
    """Cut a file into ranges of about `size` bytes that begin and end at line breaks."""
    if is_packed(file.path) or file.size <= size:
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
            while position < file.size and not block.endswith(b"\n"):
                block = handle.readline(_BLOCK)
                position += len(block)
                seen += block.endswith(b"\n")
            ranges.append(FileRange(file, start, position, rows + 1))
            rows += seen
            start = position
    return ranges


def ranges_from(file: InputFile, starts: Sequence[tuple[int, int]]) -> list[FileRange]:
    """Return ranges that begin at these bytes and rows, and end where the next one begins or the file ends."""
    stops = [*(start for start, _ in starts[1:]), file.size]
    return [FileRange(file, start, stop, row) for (start, row), stop in zip(starts, stops, strict=True)]


def lines(file_range: FileRange) -> Iterator[tuple[int, bytes]]:
    """Yield row number and bytes of every line, without line ends. A line that is too long is cut off a little beyond LONGEST."""
    path = file_range.file.path
    row = file_range.first_row
    with damaged_after(path, lambda: row), open_bytes(path) as handle:
        # A compressed file is one range, and its size says nothing about the text in it.
        to_the_end = is_packed(path)
        if file_range.start:
            handle.seek(file_range.start)
        left = file_range.stop - file_range.start
        while to_the_end or left > 0:
            line = handle.readline(LONGEST + len(_BOM) + 2)
            if not line:
                return
            left -= len(line)
            rest = line
            while len(rest) > _BLOCK and not rest.endswith(b"\n"):
                rest = handle.readline(LONGEST)
                left -= len(rest)
            if row == 1:
                line = line.removeprefix(_BOM)
            yield row, line.rstrip(b"\r\n")
            row += 1


@contextmanager
def damaged_after(path: Path, row: Callable[[], int]) -> Iterator[None]:
    """Name the line at which a damaged file can no longer be read."""
    try:
        with reading(path):
            yield
    except InputError as error:
        if row() == 1:
            raise
        problem = f"{error.problem}; it cannot be read from this line on"
        raise InputError(problem, where=f"{path}:{row()}", fix=error.fix) from None


def decode(data: bytes, encoding: str, *, path: Path, row: int) -> str:
    """Decode bytes that begin at a row of a file. An error names the line and the byte in it."""
    if len(data) > LONGEST:
        raise InputError(
            f"a document of more than {LONGEST >> 20} MB",
            where=f"{path}:{row}",
            fix="A line is a document, and so is a file of plain text: cut it, or set --unit line or block",
        )
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = row + before.count(b"\n")
        column = error.start - (before.rfind(b"\n") + 1)
        raise InputError(
            f"byte {column + 1} of this line is not valid {encoding}",
            where=f"{path}:{line}",
            fix=encoding_fix(data),
        ) from None


def encoding_fix(data: bytes) -> str:
    """Suggest a fix for bytes that are not in the encoding of their source."""
    if b"\0" in data[:1000]:
        return "It looks like UTF-16: convert the file to UTF-8. Plain text and tables can also be read with --encoding utf-16"
    return "Convert the file to UTF-8, or give its encoding, often --encoding latin-1 or cp1252 (in a recipe: the source's encoding)"
