"""Rows of JSON Lines, tables and Parquet files as notes or pairs of texts."""

from __future__ import annotations

import codecs
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple, cast

from osler.core.errors import InputError, RecipeError, nearest
from osler.core.extras import require
from osler.core.parsing import parse_json
from osler.formats.sources import SourceTree, csv_rows
from osler.formats.tables import list_columns
from osler.stages.serve.note_files import LINES, NoteFile
from osler.text.document import Document, Record, TextPair, check_text, split_meta

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
_PARQUET_ROWS = 64
"""Number of rows of a Parquet file in memory."""
_IN_MEMORY = 1 << 26

Cells = Mapping[str, Any]
Row = tuple[int, Cells | InputError]
"""Line or number of a row, with its cells, or with an error if the row is broken."""


class Roles(NamedTuple):
    """Columns of a table, or keys of JSON objects, that hold texts and ids, and those that are not read."""

    texts: tuple[str, ...]
    id: str | None
    unread: frozenset[str]


def rows(file: NoteFile) -> Iterator[Row]:
    """Yield the rows of a UTF-8 file."""
    if file.suffix in LINES:
        return _objects(file)
    if file.suffix == ".parquet":
        return _parquet(file)
    return _table(file)


def count_rows(file: NoteFile) -> int:
    """Count rows, including broken ones."""
    if file.suffix in LINES:
        return file.survey.lines
    if file.suffix == ".parquet":
        with _opened_parquet(file) as table:
            return int(table.metadata.num_rows)
    return sum(1 for _ in rows(file))


def columns(file: NoteFile) -> list[str] | None:
    """The columns of a table, or the keys of the first object; None if there is no row."""
    if file.suffix == ".parquet":
        with _opened_parquet(file) as table:
            return [str(name) for name in table.schema_arrow.names]
    return next((list(cells) for _, cells in rows(file) if not isinstance(cells, InputError)), None)


def where(file: NoteFile, line: int) -> str:
    """Location of a row for messages."""
    return f"{file.shown}: row {line}" if file.suffix == ".parquet" else f"{file.shown}:{line}"


def choose_roles(
    found: Sequence[str], text_columns: tuple[str, ...], id_column: str | None, *, where: str, what: str
) -> Roles:
    """Determine which columns (or keys) hold texts and ids: the requested ones, else those with the usual names."""
    known = list_columns(found) or f"The {what}s are not shown, because they look like data: is there a header?"
    for asked in (*text_columns, *([id_column] if id_column else [])):
        if asked not in found:
            close = nearest(asked, found)
            hint = f"Did you mean {close!r}? " if close else ""
            raise RecipeError(f"no {what} {asked!r}", where=where, fix=f"{hint}{known}")
    # Keys of osler's own records. The rest of a row goes to the metadata of its annotations.
    unread = frozenset({"meta", "label", "value"} if what == "key" else ())
    lower = {column.lower().strip(): column for column in found}
    # The first object need not have an id, but others may.
    names = id_column or next((lower[n] for n in _IDS if n in lower), "id" if what == "key" else None)
    if text_columns:
        return Roles(text_columns, names, unread)
    for usual in (*((name,) for name in _TEXT), *_PAIRS):
        if all(name in lower for name in usual):
            return Roles(tuple(lower[name] for name in usual), names, unread)
    raise RecipeError(
        f"no {what} is named text",
        where=where,
        fix=f"Name the {what} with the texts: --text-column NAME (twice for pairs). {known}",
    )


def make_record(cells: Cells, roles: Roles, number: str, where: str) -> Record:
    """Create the note or pair of a row. `number` is its id if it has none."""
    texts = []
    for column in roles.texts:
        text = cells.get(column)
        if not isinstance(text, str):
            problem = f"{column!r} is missing" if text is None else f"{column!r} is not a string"
            raise InputError(problem, where=where, fix="Correct the line")
        texts.append(check_text(text, where=where))
    found = cells.get(roles.id) if roles.id else None
    name = number if found in (None, "") or isinstance(found, dict | list) else str(found)
    used = {*roles.texts, roles.id, *roles.unread}
    given = cells.get("meta")
    everything = {**(given if isinstance(given, dict) else {}), **{k: v for k, v in cells.items() if k not in used}}
    plain = {str(k): str(v) for k, v in everything.items() if isinstance(v, str | int | float) and v != ""}
    meta, _ = split_meta(plain)
    for text in (name, *meta, *meta.values()):
        check_text(text, where=where)
    if len(texts) == 2:
        return TextPair(name, texts[0], texts[1], meta=meta)
    return Document(name, texts[0], meta=meta)


def _objects(file: NoteFile) -> Iterator[Row]:
    """Yield the rows of JSON Lines. A broken line gives one error, and reading continues after it."""
    with file.open() as stream:
        for number, raw in enumerate(stream, 1):
            line = (raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw).strip()
            if line:
                yield number, _object(line, where(file, number))


def _object(line: bytes, place: str) -> Cells | InputError:
    try:
        if b"\x00" in line:
            raise InputError("NUL character", where=place, fix="Check that the file is text")
        found = parse_json(line.decode(), where=place)
    except UnicodeDecodeError as error:  # only if the file has changed since it was surveyed
        return InputError(f"not UTF-8 at byte {error.start} of the line", where=place, fix="Convert it to UTF-8")
    except InputError as error:
        return error
    if isinstance(found, dict):
        return found
    return InputError("not a JSON object", where=place, fix='Write {"id": ..., "text": ...}')


def _table(file: NoteFile) -> Iterator[Row]:
    name = PurePosixPath(file.name).name
    tree = _tree(file, name)
    found: Iterator[tuple[int, list[str]]]
    if file.suffix == ".tsv":  # without quoting: shared tasks' files contain lone quotation marks
        found = ((number, line.split("\t")) for number, line in tree.lines(name) if line)
    else:
        head = next(iter(tree.head(name, 1)), "")
        found = csv_rows(tree, name, ";" if head.count(";") > head.count(",") else ",")
    first, header = next(found, (0, []))
    for place, column in enumerate(header):
        if column and (before := header.index(column)) < place:
            raise InputError(
                f"columns {before + 1} and {place + 1} have the same name",
                where=where(file, first),
                fix="Rename or remove one of them",
            )
    for number, row in found:
        if len(row) == len(header):
            yield number, dict(zip(header, row, strict=True))
        else:
            problem = f"{len(row)} columns instead of {len(header)}"
            yield number, InputError(problem, where=where(file, number), fix="Correct the row")


def _tree(file: NoteFile, name: str) -> SourceTree:
    """Represent one file as a tree whose errors show the location of the file."""
    return SourceTree(Path(file.shown).parent, {name: file.entry})


def _parquet(file: NoteFile) -> Iterator[Row]:
    number = 0
    with _opened_parquet(file) as table:
        for batch in table.iter_batches(batch_size=_PARQUET_ROWS):
            for cells in batch.to_pylist():
                number += 1
                yield number, cells


@contextmanager
def _opened_parquet(file: NoteFile) -> Iterator[Any]:
    """Open a Parquet file. The columns are listed at its end, so a compressed file is unpacked first. Rows are read a few at a
    time."""
    arrow, parquet = require("pyarrow", "corpus"), require("pyarrow.parquet", "corpus")
    with file.open() as stream, tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as spool:
        source: BinaryIO = stream
        if not stream.seekable():
            while block := stream.read(1 << 20):
                spool.write(block)
            spool.seek(0)
            source = cast(BinaryIO, spool)
        try:
            # Without a buffer, only the pages being read are in memory.
            yield parquet.ParquetFile(source, pre_buffer=False)
        except (arrow.ArrowException, OSError):  # its own message may quote the file
            problem = "the Parquet file is damaged or cut short"
            raise InputError(problem, where=file.shown, fix="Copy or download it again") from None
