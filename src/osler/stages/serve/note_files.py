"""Find the files that hold notes: single ones, folders, patterns, archives, compressed files and standard input."""

from __future__ import annotations

import codecs
import glob
import hashlib
import io
import posixpath
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple, cast

from osler.core.errors import InputError, RecipeError
from osler.formats.archives import LIMITS, OPENERS, Entry, files_below, is_archive, open_file, part_of, scan, shown_name

LINES = (".jsonl", ".ndjson")
TABLES = (".csv", ".tsv", ".parquet")
STDIN = "-"
_IN_FOLDERS = (".txt", *LINES)
_NOT_TEXT = {
    ".json": 'Write JSON Lines: one object with "text" per line',
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "Save the sheet as CSV"),
    **dict.fromkeys((".pdf", ".doc", ".docx", ".odt", ".rtf"), "Extract the text to a .txt file"),
    **dict.fromkeys((".7z", ".rar"), "Unpack it, or pack it as .zip or .tar.gz"),
}
_IN_MEMORY = 1 << 26
"""Bytes of standard input to keep in memory. More goes to an unnamed temporary file."""
_BLOCK = 1 << 20


class ByteSurvey(NamedTuple):
    """Result of one pass over a file."""

    digest: bytes
    lines: int
    """Lines that are not blank."""
    not_utf8: int | None
    """Position of the first byte that is not UTF-8."""
    utf16: bool


@dataclass(frozen=True)
class NoteFile:
    """One input file, a member of an archive, or standard input."""

    entry: Entry
    name: str
    """Path below the given folder, pattern or archive, which is the same on every machine."""
    shown: str
    """Location for messages."""
    given: str
    """Name of the given folder or archive, or of the folder that contains the file."""
    is_stdin: bool = False

    @cached_property
    def suffix(self) -> str:
        """File type: .txt unless the name, or the first byte of standard input, indicates JSON Lines or a table."""
        if self.is_stdin:
            with self.open() as stream:
                return ".jsonl" if stream.read(1 << 16).lstrip()[:1] == b"{" else ".txt"
        suffix = _ending(self.name)
        return suffix if suffix in (*LINES, *TABLES) else ".txt"

    @property
    def stem(self) -> str:
        """Id of a note that is a file: its name without the ending."""
        return posixpath.splitext(self.name)[0]

    def open(self) -> BinaryIO:
        return self.entry.open()

    @cached_property
    def survey(self) -> ByteSurvey:
        """Read the file once, for its hash, its lines, and whether it is UTF-8. Keeps nothing in memory."""
        digest, decoder = hashlib.sha256(), codecs.getincrementaldecoder("utf-8")()
        lines, blank, position, wrong = 0, True, 0, None
        first = b""
        with self.open() as stream:
            while block := stream.read(_BLOCK):
                first = first or block[:2]
                digest.update(block)
                if wrong is None:
                    pending = len(decoder.getstate()[0])
                    try:
                        decoder.decode(block)
                    except UnicodeDecodeError as error:
                        wrong = position - pending + error.start
                position += len(block)
                pieces = block.split(b"\n")
                for piece in pieces[:-1]:
                    lines += not (blank and (not piece or piece.isspace()))
                    blank = True
                blank = blank and (not pieces[-1] or pieces[-1].isspace())
        if wrong is None and decoder.getstate()[0]:
            wrong = position - len(decoder.getstate()[0])
        utf16 = first in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        return ByteSurvey(digest.digest(), lines + (not blank), wrong, utf16)

    def recoded(self, encoding: str) -> NoteFile:
        """Return the same file in UTF-8, converted while reading."""
        source = self.entry

        def opened() -> BinaryIO:
            return cast(BinaryIO, io.BufferedReader(_Recoded(source.open(), encoding, self.shown), _BLOCK))

        return replace(self, entry=Entry(opened, source.size))


class _Recoded(io.RawIOBase):
    """A stream in another encoding as UTF-8."""

    def __init__(self, stream: BinaryIO, encoding: str, where: str) -> None:
        self._stream, self._encoding, self._where = stream, encoding, where
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ready = b""
        self._position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast(bytearray, buffer))
        while not self._ready:
            block = self._stream.read(1 << 16)
            pending = len(self._decoder.getstate()[0])
            try:
                self._ready = self._decoder.decode(block, final=not block).encode()
            except UnicodeError as error:  # has no position if UTF-16 has no byte-order mark
                place = self._position - pending + getattr(error, "start", 0)
                raise neither(self._encoding, place, self._where) from None
            self._position += len(block)
            if not block:
                break
        size = min(len(view), len(self._ready))
        view[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    def close(self) -> None:
        self._stream.close()
        super().close()


def neither(encoding: str, position: int, where: str) -> InputError:
    """Create the error for bytes that are neither UTF-8 nor in the given encoding."""
    problem = f"neither UTF-8 nor {encoding} at byte {position}"
    return InputError(problem, where=where, fix="Find out its encoding")


class FoundFiles:
    """Files found at the given paths, in reading order."""

    def __init__(self, paths: Sequence[Path], skip: Callable[[str, InputError], None]) -> None:
        self._skip = skip
        self._closers: list[Callable[[], None]] = []
        self.left_out: Counter[str] = Counter()
        """Unread files in the given folders and archives, by ending."""
        self.files = [file for path in paths for file in self._expand(path)]

    def close(self) -> None:
        """Close the archives that were opened to list them."""
        while self._closers:
            self._closers.pop()()

    def _expand(self, path: Path) -> Iterator[NoteFile]:
        if str(path) == STDIN:
            yield _standard_input()
        elif path.is_dir():
            inside = [(file, file.relative_to(path).as_posix()) for file in sorted(files_below(path))]
            found = [member for file, name in inside for member in self._members(file, name, path.name or "notes")]
            yield from self._chosen(found, path, "folder")
        elif path.exists():
            if advice := _NOT_TEXT.get(path.suffix.lower()):
                raise InputError(f"{path.suffix.lower()} files are not read", where=path, fix=advice)
            above = path.parent.name or path.absolute().parent.name
            found = list(self._members(path, "" if is_archive(path.name) else path.name, above))
            yield from self._chosen(found, path, "archive") if is_archive(path.name) and found else found
        elif glob.has_magic(str(path)):
            yield from self._matching(path)
        else:
            raise InputError("no such file", where=path, fix="Check the path")

    def _matching(self, pattern: Path) -> Iterator[NoteFile]:
        """Yield files that match a pattern such as notes/**/*.txt, named relative to the folder where the pattern begins."""
        fixed = next(place for place, part in enumerate(pattern.parts) if glob.has_magic(part))
        root = Path(*pattern.parts[:fixed])
        matched = sorted(path for path in map(Path, glob.glob(str(pattern), recursive=True)) if path.is_file())
        if not matched:
            raise InputError("no file matches this pattern", where=pattern, fix="Check the path, and quote the pattern")
        for path in matched:
            name = path.relative_to(root).as_posix()
            if path.suffix.lower() in _NOT_TEXT:
                self.left_out[path.suffix.lower()] += 1
            else:
                yield from self._members(path, name, root.name or "notes")

    def _members(self, path: Path, name: str, given: str) -> Iterator[NoteFile]:
        """Yield the file itself, unpacked if compressed, or the members of an archive."""
        name = shown_name(name)
        if not is_archive(path.name) and _ending(path.name) not in OPENERS:
            yield NoteFile(Entry(partial(open_file, path), 1), name, str(path), given)
            return
        try:
            entries, closers = scan(path, LIMITS)
        except (InputError, OSError) as error:
            wrong = error if isinstance(error, InputError) else InputError(f"cannot be read: {error.strerror}")
            self._skip(name or path.name, wrong)
            return
        self._closers += closers
        if not is_archive(path.name):
            [(inner, entry)] = entries.items()
            yield NoteFile(entry, str(PurePosixPath(name).with_name(inner)), str(path), given)
            return
        for inner, entry in sorted(entries.items()):
            yield NoteFile(entry, f"{name}/{inner}" if name else inner, str(path / inner), given)

    def _chosen(self, found: Sequence[NoteFile], path: Path, what: str) -> list[NoteFile]:
        """Choose the text and JSON Lines files of a folder or archive, or its tables if it has neither."""
        endings = [_ending(file.name) for file in found]
        wanted = _IN_FOLDERS if any(ending in _IN_FOLDERS for ending in endings) else TABLES
        chosen = [file for file, ending in zip(found, endings, strict=True) if ending in wanted]
        if not chosen:
            raise InputError(f"no .txt or .jsonl file in this {what}", where=path, fix="Name the files to annotate")
        self.left_out.update(ending or "without an ending" for ending in endings if ending not in wanted)
        return chosen


def _ending(name: str) -> str:
    return posixpath.splitext(name)[1].lower()


def _standard_input() -> NoteFile:
    """Buffer standard input in memory or in a temporary file, because it is read more than once."""

    def opened() -> BinaryIO:
        if not held:
            held.append(tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY))  # noqa: SIM115 - read until the end
            while block := sys.stdin.buffer.read(_BLOCK):
                held[0].write(block)
        size = held[0].seek(0, io.SEEK_END)
        if not size:
            raise RecipeError("nothing was piped in", where=shown, fix="Name files or folders, or pipe text in")
        return part_of(cast(BinaryIO, held[0]), 0, size)

    held: list[tempfile.SpooledTemporaryFile[bytes]] = []
    shown = "standard input"
    return NoteFile(Entry(opened, 1), "stdin", shown, "", is_stdin=True)
