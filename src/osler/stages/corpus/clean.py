"""Clean one part of the input: read, repair, filter."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osler.core.errors import InputError, writing
from osler.core.extras import require
from osler.core.files import sync_folder
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.documents import FilePart, InputFile, RawDocument, RepairedDocument
from osler.stages.corpus.readers import READERS

GROUP_BYTES = 8 << 20
"""How much a row group holds: what a reader has in memory at a time."""


@contextmanager
def parquet_writer(path: Path, schema: Any, *, compression: str, dictionary: Sequence[str]) -> Iterator[Any]:
    """A Parquet writer whose file appears under its name only when all of it is on disk."""
    parquet = require("pyarrow.parquet", "corpus")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "wb") as handle:
                with parquet.ParquetWriter(
                    handle,
                    schema,
                    version="2.6",
                    compression=compression,
                    use_dictionary=list(dictionary),
                    # Statistics would put the smallest and largest text into the footer, and nothing here uses them.
                    write_statistics=False,
                ) as writer:
                    yield writer
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)


def read_columns(path: Path, *columns: str) -> Any:
    """Some columns of a Parquet file, as an Arrow table."""
    return require("pyarrow.parquet", "corpus").read_table(path, columns=list(columns), use_threads=False)


def regrouped(tables: Iterable[Any], limit: int, weigh: Callable[[Any], NDArray[np.int64]]) -> Iterator[Any]:
    """The rows of some tables in new tables of about `limit` weight, whose borders depend on the rows alone."""
    concatenate = require("pyarrow", "corpus").concat_tables
    held: list[Any] = []
    room = limit
    for table in tables:
        rest = table
        while rest.num_rows:
            weights = np.cumsum(weigh(rest))
            count = int(np.searchsorted(weights, room)) + 1
            head, rest = rest.slice(0, count), rest.slice(count)
            held.append(head)
            room -= int(weights[head.num_rows - 1])
            if room <= 0:
                yield concatenate(held).combine_chunks()
                held, room = [], limit
    if held:
        yield concatenate(held).combine_chunks()


class RowBuffer:
    """Collects rows and writes them as one row group each time they weigh enough."""

    def __init__(self, writer: Any, schema: Any) -> None:
        self._pyarrow = require("pyarrow", "corpus")
        self._writer = writer
        self._schema = schema
        self._rows: list[tuple[Any, ...]] = []
        self._weight = 0

    def add(self, row: tuple[Any, ...], weight: int) -> None:
        """Take one row, its values in the order of the schema."""
        self._rows.append(row)
        self._weight += weight
        if self._weight >= GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        if not self._rows:
            return
        columns = [
            self._pyarrow.array(values, type=field.type)
            for values, field in zip(zip(*self._rows, strict=True), self._schema, strict=True)
        ]
        self._writer.write_table(self._pyarrow.Table.from_arrays(columns, schema=self._schema))
        self._rows = []
        self._weight = 0


PART_BYTES = 16 << 20
DIGEST_BYTES = 16


@dataclass(frozen=True)
class Part:
    """Pieces that are cleaned together, and the two files they go to."""

    pieces: tuple[FilePart, ...]
    recipe: CorpusRecipe
    kept: Path
    removed: Path


def plan_parts(files: Sequence[InputFile], recipe: CorpusRecipe, folder: Path) -> list[Part]:
    """Parts of about PART_BYTES each, in input order."""
    groups: list[list[FilePart]] = []
    held = PART_BYTES
    for file in files:
        pieces = READERS.get(file.reader).cut(file, recipe.sources[file.source], PART_BYTES)
        for piece in pieces:
            size = file.size // len(pieces)
            if held + size // 2 >= PART_BYTES:
                groups.append([])
                held = 0
            groups[-1].append(piece)
            held += max(1, size)
    return [
        Part(tuple(group), recipe, folder / f"kept-{index:06d}.parquet", folder / f"removed-{index:06d}.parquet")
        for index, group in enumerate(groups)
    ]


def kept_schema() -> Any:
    """Columns of the documents that a part keeps; `position` counts all documents of the part."""
    pa = require("pyarrow", "corpus")
    return pa.schema(
        [
            ("position", pa.int64()),
            ("source", pa.string()),
            ("file", pa.string()),
            ("row", pa.int64()),
            ("id", pa.string()),
            ("language", pa.string()),
            ("text", pa.string()),
            ("digest", pa.binary(DIGEST_BYTES)),
            ("bytes", pa.int64()),
            ("characters", pa.int64()),
            ("words", pa.int64()),
            ("repaired", pa.bool_()),
        ]
    )


def removed_schema() -> Any:
    """Columns of the documents that a part removes: from where, and why. Never the text."""
    pa = require("pyarrow", "corpus")
    return pa.schema(
        [
            ("position", pa.int64()),
            ("source", pa.string()),
            ("file", pa.string()),
            ("row", pa.int64()),
            ("id", pa.string()),
            ("reason", pa.string()),
        ]
    )


# What ftfy removes or rewrites whatever stands beside it: controls, unusual line ends, surrogates, deprecated format
# characters, the byte order mark.
_ODD = re.compile("[\x00-\x08\x0b\x0d-\x1f\x7f-\x9f\u2028\u2029\u206a-\u206f\ud800-\udfff\ufeff\ufff9-\ufffc]")
# Every pattern of ftfy's mojibake test has two neighbours outside ASCII, or is one of these two special cases.
_NEIGHBOURS = re.compile("[^\x00-\x7f](?:[^\x00-\x7f]+|(?<=[Œœ])[^A-Za-z]|(?<=[ÂÃ]) )")
_CONTEXT = 4
_LINES = re.compile(r"[^\n]*\n|[^\n]+")


@cache
def repairer(html_entities: bool = True) -> Callable[[str], str]:
    """The function that repairs one text."""
    ftfy = require("ftfy", "corpus")
    is_bad = require("ftfy.badness", "corpus").is_bad
    settings = ftfy.TextFixerConfig(
        unescape_html=html_entities,
        uncurl_quotes=False,
        fix_latin_ligatures=False,
        fix_character_width=False,
        normalization="NFC",
        explain=False,
    )

    def suspicious(line: str) -> bool:
        if (html_entities and "&" in line) or _ODD.search(line):
            return True
        if line.isascii():
            return False
        if not unicodedata.is_normalized("NFC", line):
            return True
        # A slice can only look worse than its line (its start counts as a line's start), so nothing is missed.
        return any(
            is_bad(line[max(0, match.start() - _CONTEXT) : match.end() + _CONTEXT])
            for match in _NEIGHBOURS.finditer(line)
        )

    def repair(text: str) -> str:
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        if text.isascii() and not _ODD.search(text) and not (html_entities and "&" in text):
            return text
        # Lines keep their end, as in ftfy: a few of its patterns look at the character after a letter.
        lines = _LINES.findall(text)
        for index, line in enumerate(lines):
            if suspicious(line):
                lines[index] = ftfy.fix_text(line, settings)
        return "".join(lines)

    return repair


_ROW_WEIGHT = 64


def clean_part(part: Part) -> None:
    """Make both files of a part, unless an earlier run did."""
    if part.kept.exists():
        return
    repair = repairer(part.recipe.unicode.html_entities) if part.recipe.unicode.repair else str
    with (
        parquet_writer(part.kept, kept_schema(), compression="lz4", dictionary=("source", "file", "language")) as kept,
        parquet_writer(
            part.removed, removed_schema(), compression="lz4", dictionary=("source", "file", "reason")
        ) as removed,
    ):
        keeps, removals = RowBuffer(kept, kept_schema()), RowBuffer(removed, removed_schema())
        for position, (piece, raw) in enumerate(_documents(part)):
            _clean(position, piece, raw, part.recipe, repair, keeps, removals)
        keeps.flush()
        removals.flush()


def _documents(part: Part) -> Iterator[tuple[FilePart, RawDocument]]:
    for piece in part.pieces:
        reader = READERS.get(piece.file.reader)
        for raw in reader.read(piece, part.recipe.sources[piece.file.source]):
            yield piece, raw


def _clean(
    position: int,
    piece: FilePart,
    raw: RawDocument,
    recipe: CorpusRecipe,
    repair: Callable[[str], str],
    keeps: RowBuffer,
    removals: RowBuffer,
) -> None:
    file = piece.file
    repaired = repair(raw.text)
    text = repaired.strip()
    origin = (position, file.source_name, file.name, raw.row, _key(raw, file.name))
    document = RepairedDocument(text, len(text.split()), recipe.sources[file.source].language)
    reason = _reason(document, recipe)
    if reason is not None:
        removals.add((*origin, reason), _ROW_WEIGHT)
        return
    data = _encoded(text, where=f"{file.path}:{raw.row}")
    digest = blake2b(data, digest_size=DIGEST_BYTES).digest()
    changed = repaired is not raw.text and repaired != raw.text
    sizes = (len(data), len(text), document.words, changed)
    keeps.add((*origin, document.language, data, digest, *sizes), len(data) + _ROW_WEIGHT)


def _reason(document: RepairedDocument, recipe: CorpusRecipe) -> str | None:
    if not document.text:
        return "empty"
    for name, judge in recipe.filters.items():
        code = judge.reason(document)
        if code is not None:
            return f"{name}.{code}"
    return None


def _key(raw: RawDocument, name: str) -> str:
    key = raw.id or f"{name}:{raw.row}"
    return key if key.isascii() and "\0" not in key else key.replace("\0", "").encode("utf-8", "replace").decode()


def _encoded(text: str, *, where: str) -> bytes:
    """The text as UTF-8; with repair off, what cannot be stored or would end up in a model is refused."""
    problem = None
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        problem = f"a lone surrogate at character {error.start + 1} of the text"
    else:
        if b"\0" in data:
            problem = f"a NUL character at character {text.index(chr(0)) + 1} of the text"
    if problem:
        raise InputError(problem, where=where, fix="Set unicode.repair = true, or correct the file") from None
    return data
