"""Find and read what is to be annotated: notes, and JSON Lines and tables of notes or of pairs of texts.

What cannot be read is skipped and listed, so that one bad file does not stop a folder of notes.
"""

from __future__ import annotations

import codecs
import hashlib
import io
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from osler.artifacts.bundle_spec import RecordKind
from osler.core.errors import InputError, RecipeError, nearest
from osler.core.parsing import parse_json
from osler.formats.archives import Entry, files_below
from osler.formats.sources import SourceTree, csv_rows
from osler.formats.tables import list_columns
from osler.stages.serve.config import AnnotateRecipe
from osler.text.document import Document, Record, TextPair, check_text, split_meta

_LINES = (".jsonl", ".ndjson")
_TABLES = (".csv", ".tsv")
_NOT_TEXT = {
    ".parquet": "Write its columns as JSON Lines or CSV",
    ".json": 'Write JSON Lines: one object with "text" per line',
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "Save the sheet as CSV"),
    **dict.fromkeys((".pdf", ".doc", ".docx", ".odt", ".rtf"), "Extract the text to a .txt file"),
    **dict.fromkeys((".zip", ".gz", ".tgz", ".tar", ".bz2", ".xz"), "Unpack it"),
}
_TEXT = ("text", "sentence", "document", "note")
_PAIRS = (
    ("first", "second"),
    ("text_a", "text_b"),
    ("sentence1", "sentence2"),
    ("text1", "text2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
)
_IDS = ("id", "index", "pairid", "guid", "row_id")
_RECODE = "Convert it to UTF-8, or say how to read it, for example --encoding latin-1"
STDIN = "-"


class Skipped(NamedTuple):
    """A file, line or row that could not be read."""

    where: str
    problem: str
    fix: str


class _Roles(NamedTuple):
    """The columns of a table, or keys of JSON objects, that hold texts and ids, and those that are not read."""

    texts: tuple[str, ...]
    id: str | None
    unread: frozenset[str]


@dataclass(frozen=True)
class NoteFile:
    """One input file, or standard input."""

    path: Path
    name: str
    """Its path below the folder that was given; the same on every machine."""

    @property
    def shown(self) -> str:
        return "standard input" if self.is_stdin else str(self.path)

    @property
    def is_stdin(self) -> bool:
        return str(self.path) == STDIN

    @cached_property
    def piped(self) -> bytes:
        """Everything that was piped in."""
        data = sys.stdin.buffer.read()
        if not data:
            raise RecipeError("nothing was piped in", where=self.shown, fix="Name files or folders, or pipe text in")
        return data

    @property
    def suffix(self) -> str:
        """What kind of file it is: .txt unless the name, or the first byte of standard input, says JSON Lines or a table."""
        if self.is_stdin:
            return ".jsonl" if self.piped.lstrip()[:1] == b"{" else ".txt"
        suffix = self.path.suffix.lower()
        return suffix if suffix in (*_LINES, *_TABLES) else ".txt"

    def open(self) -> Any:
        if self.is_stdin:
            return io.BytesIO(self.piped)
        try:
            return open(self.path, "rb")
        except OSError as error:
            problem = f"cannot be read: {error.strerror}"
            raise InputError(problem, where=self.path, fix="Check the file and its permissions") from None


class Notes:
    """Everything that a recipe names, read file by file. `skipped` lists what could not be read."""

    def __init__(self, recipe: AnnotateRecipe) -> None:
        self._recipe = recipe
        self.skipped: list[Skipped] = []
        self.left_out: Counter[str] = Counter()
        """Files in the given folders that are neither text nor JSON Lines, by ending."""
        self.files = [file for path in recipe.files for file in self._expand(path)]
        stems = Counter(file.path.stem for file in self.files)
        self._trees: dict[NoteFile, SourceTree] = {}
        self._repeated = {stem for stem, count in stems.items() if count > 1}
        self._roles = {file: roles for file in self.files if not file.is_stdin and (roles := self._look(file))}

    @property
    def kinds(self) -> set[RecordKind]:
        """Whether the files hold documents, pairs or both, as far as this is known before they are read."""
        found: set[RecordKind] = {"pair" if len(roles.texts) == 2 else "document" for roles in self._roles.values()}
        if any(not file.is_stdin and file.suffix == ".txt" for file in self.files):
            found.add("document")
        return found

    def digest(self) -> str:
        """Hash of the contents in reading order, and of how they are read if the recipe says so."""
        digest = hashlib.sha256()
        for file in self.files:
            try:
                with file.open() as stream:
                    digest.update(hashlib.file_digest(stream, "sha256").digest())
            except InputError:
                digest.update(bytes(32))  # skipped when it is read
        recipe = self._recipe
        if recipe.encoding or recipe.text_columns or recipe.id_column:
            digest.update(json.dumps([recipe.encoding, recipe.text_columns, recipe.id_column]).encode())
        return digest.hexdigest()

    def count(self) -> int:
        """Number of notes or pairs; lines that cannot be read count too."""
        return sum(self._count(file) for file in self.files)

    def __iter__(self) -> Iterator[Record]:
        for file in self.files:
            try:
                yield from self._text(file) if file.suffix == ".txt" else self._rows(file)
            except InputError as error:
                self._skip(file, error)

    def _expand(self, path: Path) -> Iterator[NoteFile]:
        """The files that a path stands for; a folder gives its text and JSON Lines files, sorted."""
        if path.is_dir():
            visible = sorted(files_below(path))
            read = (".txt", *_LINES)
            inside = [item for item in visible if item.suffix.lower() in read]
            if not inside:
                raise InputError("no .txt or .jsonl file in this folder", where=path, fix="Name the files to annotate")
            others = (item.suffix.lower() for item in visible if item.suffix.lower() not in read)
            self.left_out.update(suffix or "without an ending" for suffix in others)
            yield from (NoteFile(item, item.relative_to(path).as_posix()) for item in inside)
        elif str(path) == STDIN:
            yield NoteFile(path, "stdin")
        elif not path.exists():
            raise InputError("no such file", where=path, fix="Check the path")
        elif advice := _NOT_TEXT.get(path.suffix.lower()):
            raise InputError(f"{path.suffix.lower()} files are not read", where=path, fix=advice)
        else:
            yield NoteFile(path, path.name)

    def _skip(self, file: NoteFile, error: InputError) -> None:
        shown = error.where or file.shown
        # The folder that was given differs between machines.
        self.skipped.append(Skipped(shown.replace(file.shown, file.name, 1), error.problem, error.fix or ""))

    def _text(self, file: NoteFile) -> Iterator[Document]:
        with file.open() as stream:
            data = stream.read()
        text = check_text(self._decode(data, file), where=file.shown)
        plain = Path(file.name).with_suffix("").as_posix()
        name = plain if file.path.stem in self._repeated else Path(plain).name
        yield Document(name, text, meta={} if file.is_stdin else {"file": file.path.name})

    def _decode(self, data: bytes, file: NoteFile) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            if self._recipe.encoding:
                try:
                    return data.decode(self._recipe.encoding)
                except UnicodeDecodeError as second:
                    problem = f"neither UTF-8 nor {self._recipe.encoding} at byte {second.start}"
                    raise InputError(problem, where=file.shown, fix="Find out its encoding") from None
            utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            raise InputError(
                "UTF-16, not UTF-8" if utf16 else f"not UTF-8 at byte {error.start}",
                where=file.shown,
                fix=_RECODE.replace("latin-1", "utf-16") if utf16 else _RECODE,
            ) from None

    def _tree(self, file: NoteFile) -> SourceTree:
        """One table or JSON Lines file as UTF-8. It is read into memory only if it has another encoding."""
        if file in self._trees:
            return self._trees[file]
        opener, decoder = file.open, codecs.getincrementaldecoder("utf-8")()
        try:
            with file.open() as stream:
                while block := stream.read(1 << 20):
                    decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            with file.open() as stream:
                recoded = self._decode(stream.read(), file).encode()
            opener = lambda: io.BytesIO(recoded)  # noqa: E731
        name = file.path.name if not file.is_stdin else file.shown
        root = file.path.parent if not file.is_stdin else Path()
        self._trees[file] = SourceTree(root, {name: Entry(opener, 1)})
        return self._trees[file]

    def _rows(self, file: NoteFile) -> Iterator[Record]:
        tree = self._tree(file)
        [name] = tree
        roles = self._roles.get(file) or self._look(file)
        if roles is None:
            return
        for number, (line, cells) in enumerate(_cells(tree, name, file.suffix), 1):
            try:
                if isinstance(cells, InputError):
                    raise cells
                yield _record(cells, roles, line if file.suffix in _LINES else number, tree.where(name, line))
            except InputError as error:
                self._skip(file, error)

    def _look(self, file: NoteFile) -> _Roles | None:
        """Which columns hold texts, by the first row; None if the file is text, empty or cannot be read."""
        if file.suffix == ".txt":
            return None
        try:
            tree = self._tree(file)
            [name] = tree
            first = next(
                (cells for _, cells in _cells(tree, name, file.suffix) if not isinstance(cells, InputError)), None
            )
        except InputError:
            return None  # reported when the file is read
        return (
            None
            if first is None
            else self._choose(list(first), file.shown, "key" if file.suffix in _LINES else "column")
        )

    def _choose(self, columns: Sequence[str], where: str, what: str) -> _Roles:
        recipe = self._recipe
        known = list_columns(columns) or f"The {what}s are not shown, because they look like data: is there a header?"
        for asked in (*recipe.text_columns, *([recipe.id_column] if recipe.id_column else [])):
            if asked not in columns:
                close = nearest(asked, columns)
                hint = f"Did you mean {close!r}? " if close else ""
                raise RecipeError(f"no {what} {asked!r}", where=where, fix=f"{hint}{known}")
        # Keys of osler's own records; everything else of a row goes to the metadata of its annotations.
        unread = frozenset({"meta", "label", "value"} if what == "key" else ())
        lower = {column.lower().strip(): column for column in columns}
        # The first object need not have an id, but others may.
        names = recipe.id_column or next((lower[n] for n in _IDS if n in lower), "id" if what == "key" else None)
        if recipe.text_columns:
            return _Roles(recipe.text_columns, names, unread)
        for usual in (*((name,) for name in _TEXT), *_PAIRS):
            if all(name in lower for name in usual):
                return _Roles(tuple(lower[name] for name in usual), names, unread)
        raise RecipeError(
            f"no {what} is named text",
            where=where,
            fix=f"Name the {what} with the texts: --text-column NAME (twice for pairs). {known}",
        )

    def _count(self, file: NoteFile) -> int:
        if file.suffix == ".txt":
            return 1
        try:
            if file.suffix in _LINES:
                with file.open() as stream:
                    return sum(not line.isspace() for line in stream)
            tree = self._tree(file)
            [name] = tree
            return sum(1 for _ in _cells(tree, name, file.suffix))
        except InputError:
            return 0  # reported when the file is read


def _cells(tree: SourceTree, name: str, suffix: str) -> Iterator[tuple[int, Mapping[str, Any] | InputError]]:
    """The rows of a table or the objects of JSON Lines with their line numbers; an error in place of one that is broken."""
    if suffix in _LINES:
        for number, line in tree.lines(name):
            if line.strip():
                yield number, _object(line, tree.where(name, number))
        return
    rows: Iterator[tuple[int, list[str]]]
    if suffix == ".tsv":  # without quoting: shared tasks' files contain lone quotation marks
        rows = ((number, line.split("\t")) for number, line in tree.lines(name) if line)
    else:
        head = next(iter(tree.head(name, 1)), "")
        rows = csv_rows(tree, name, ";" if head.count(";") > head.count(",") else ",")
    _, header = next(rows, (0, []))
    for number, row in rows:
        if len(row) == len(header):
            yield number, dict(zip(header, row, strict=True))
        else:
            problem = f"{len(row)} columns instead of {len(header)}"
            yield number, InputError(problem, where=tree.where(name, number), fix="Correct the row")


def _object(line: str, where: str) -> Mapping[str, Any] | InputError:
    try:
        found = parse_json(line, where=where)
    except InputError as error:
        return error
    if isinstance(found, dict):
        return found
    return InputError("not a JSON object", where=where, fix='Write {"id": ..., "text": ...}')


def _record(cells: Mapping[str, Any], roles: _Roles, number: int, where: str) -> Record:
    texts = []
    for column in roles.texts:
        text = cells.get(column)
        if not isinstance(text, str):
            problem = f"{column!r} is missing" if text is None else f"{column!r} is not a string"
            raise InputError(problem, where=where, fix="Correct the line")
        texts.append(check_text(text, where=where))
    found = cells.get(roles.id) if roles.id else None
    name = str(number) if found in (None, "") or isinstance(found, dict | list) else str(found)
    used = {*roles.texts, roles.id, *roles.unread}
    given = cells.get("meta")
    everything = {**(given if isinstance(given, dict) else {}), **{k: v for k, v in cells.items() if k not in used}}
    plain = {str(k): str(v) for k, v in everything.items() if isinstance(v, str | int | float) and v != ""}
    meta, _ = split_meta(plain)
    if len(texts) == 2:
        return TextPair(name, texts[0], texts[1], meta=meta)
    return Document(name, texts[0], meta=meta)
