"""Read the input note by note: text files, JSON Lines, and tables of notes or pairs of texts.

Unreadable input is skipped and listed, so that one bad file does not stop a folder of notes. Only the current note is in
memory.
"""

from __future__ import annotations

import codecs
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import PurePosixPath
from typing import NamedTuple

from osler.artifacts.bundle_spec import RecordKind
from osler.core.errors import InputError
from osler.stages.serve.config import NoteInputs
from osler.stages.serve.note_files import LINES, FoundFiles, NoteFile, neither
from osler.stages.serve.note_rows import Roles, choose_roles, columns, count_rows, make_record, rows, where
from osler.text.document import Document, Record, check_text

_RECODE = "Convert it to UTF-8, or say how to read it, for example --encoding latin-1"


class Skipped(NamedTuple):
    """A file, line or row that could not be read."""

    where: str
    problem: str
    fix: str


class Notes:
    """All notes and pairs of a recipe, read file by file. `skipped` lists what could not be read.

    Every note has a unique id. For a file, it is its path below the given folder, without the ending. For a row, it is the
    value of its id column or its number, after the name of its file if there are several files. If two ids are equal, the later
    note gets a number: `a~2`.
    """

    def __init__(self, recipe: NoteInputs) -> None:
        self._recipe = recipe
        self.skipped: list[Skipped] = []
        self.renamed = 0
        """Notes whose id was already taken."""
        found = FoundFiles(recipe.files, self._skip_file)
        self.files, self.left_out = found.files, found.left_out
        if not self.files:
            first = self.skipped[0]
            raise InputError(first.problem, where=first.where, fix=first.fix)
        self._unreadable = list(self.skipped)
        self._names = _distinct(self.files)
        self._roles: dict[NoteFile, Roles] = {}
        for file in self.files:
            if file.is_stdin or file.suffix == ".txt":
                continue
            with suppress(InputError):  # reported when the file is read
                if roles := self._look(file):
                    self._roles[file] = roles

    @property
    def kinds(self) -> set[RecordKind]:
        """Whether the files hold documents, pairs or both, as far as known before reading."""
        found: set[RecordKind] = {"pair" if len(roles.texts) == 2 else "document" for roles in self._roles.values()}
        if any(not file.is_stdin and file.suffix == ".txt" for file in self.files):
            found.add("document")
        return found

    def digest(self) -> str:
        """Hash of names and contents in reading order, and of the reading options, if the recipe sets any."""
        digest = hashlib.sha256()
        for file in self.files:
            digest.update(json.dumps(self._names[file]).encode())
            try:
                digest.update(file.survey.digest)
            except InputError:
                digest.update(bytes(32))  # reported as skipped when it is read
        recipe = self._recipe
        if recipe.encoding or recipe.text_columns or recipe.id_column:
            digest.update(json.dumps([recipe.encoding, recipe.text_columns, recipe.id_column]).encode())
        return digest.hexdigest()

    def count(self) -> int:
        """Number of notes or pairs, including lines that cannot be read."""
        return sum(self._count(file) for file in self.files)

    def __iter__(self) -> Iterator[Record]:
        """Read everything from the start. `skipped` then lists what this pass could not read."""
        self.skipped[:] = self._unreadable
        self.renamed = 0
        taken: set[int] = set()  # hashes, because ids can be long and many
        for file in self.files:
            try:
                for record in self._text(file) if file.suffix == ".txt" else self._rows(file):
                    yield self._named(record, taken)
            except InputError as error:
                self._skip(file, error)

    def _named(self, record: Record, taken: set[int]) -> Record:
        """Return the record with a unique id."""
        name, number = record.id, 1
        while hash(name) in taken:
            number += 1
            name = f"{record.id}~{number}"
        taken.add(hash(name))
        if number == 1:
            return record
        self.renamed += 1
        return record.with_(id=name)

    def _skip_file(self, name: str, error: InputError) -> None:
        self.skipped.append(Skipped(name, error.problem, error.fix or ""))

    def _skip(self, file: NoteFile, error: InputError) -> None:
        # The given folder differs between machines.
        shown = (error.where or file.shown).replace(file.shown, file.name if not file.is_stdin else file.shown, 1)
        self.skipped.append(Skipped(shown, error.problem, error.fix or ""))

    def _text(self, file: NoteFile) -> Iterator[Document]:
        with file.open() as stream:
            data = stream.read()
        text = check_text(self._decode(data, file), where=file.shown)
        meta = {} if file.is_stdin else {"file": PurePosixPath(file.name).name}
        yield Document(self._names[file], text, meta=meta)

    def _decode(self, data: bytes, file: NoteFile) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            if self._recipe.encoding:
                try:
                    return data.decode(self._recipe.encoding)
                except UnicodeDecodeError as second:
                    raise neither(self._recipe.encoding, second.start, file.shown) from None
            utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            raise _not_utf8(file, error.start, utf16=utf16) from None

    def _as_utf8(self, file: NoteFile) -> NoteFile:
        """JSON Lines or a table in UTF-8, converted while reading if necessary."""
        if file.suffix == ".parquet" or file.survey.not_utf8 is None:
            return file
        if self._recipe.encoding:
            return file.recoded(self._recipe.encoding)
        raise _not_utf8(file, file.survey.not_utf8, utf16=file.survey.utf16)

    def _rows(self, file: NoteFile) -> Iterator[Record]:
        roles = self._roles.get(file) or self._look(file)
        if roles is None:
            return
        readable = self._as_utf8(file)
        prefix = "" if len(self.files) == 1 else f"{self._names[file]}-"
        for number, (line, cells) in enumerate(rows(readable), 1):
            try:
                if isinstance(cells, InputError):
                    raise cells
                shown = line if file.suffix in LINES else number
                yield make_record(cells, roles, f"{prefix}{shown}", where(file, line))
            except InputError as error:
                self._skip(file, error)

    def _look(self, file: NoteFile) -> Roles | None:
        """Find the columns with texts from the first row. None if there is no row."""
        found = columns(self._as_utf8(file))
        if found is None:
            return None
        recipe, what = self._recipe, "key" if file.suffix in LINES else "column"
        return choose_roles(found, recipe.text_columns, recipe.id_column, where=file.shown, what=what)

    def _count(self, file: NoteFile) -> int:
        try:
            return 1 if file.suffix == ".txt" else count_rows(self._as_utf8(file))
        except InputError:
            return 0  # reported when the file is read


def _not_utf8(file: NoteFile, position: int, *, utf16: bool) -> InputError:
    return InputError(
        "UTF-16, not UTF-8" if utf16 else f"not UTF-8 at byte {position}",
        where=file.shown,
        fix=_RECODE.replace("latin-1", "utf-16") if utf16 else _RECODE,
    )


def _distinct(files: list[NoteFile]) -> dict[NoteFile, str]:
    """Choose a unique name for each file: with the given folder if two would be equal, then with a number."""
    counts = Counter(file.stem for file in files)
    longer = [file.stem if counts[file.stem] == 1 else f"{file.given}/{file.stem}" for file in files]
    taken: set[str] = set()
    names: dict[NoteFile, str] = {}
    for file, name in zip(files, longer, strict=True):
        number, made = 1, name
        while made in taken:
            number += 1
            made = f"{name}~{number}"
        taken.add(made)
        names[file] = made
    return names
