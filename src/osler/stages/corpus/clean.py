"""Clean one part of the input: read its documents, repair their text, filter them.

Parts are the unit of parallel work and of resuming. Each part writes two Parquet files: kept and removed documents.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from osler.artifacts.corpus import LEDGER_SCHEMA, ROW_GROUP_BYTES, parquet_writer
from osler.core.errors import InputError
from osler.core.extras import require
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.documents import FileRange, InputFile, RepairedDocument
from osler.stages.corpus.filters import Filter
from osler.stages.corpus.readers import READERS

pa = require("pyarrow", "corpus")

PART_BYTES = 16 << 20
_DIGEST_BYTES = 16
_ROW_BYTES = 64
"""Estimated size of a row without its text."""

_POSITION = pa.field("position", pa.int64())  # of the document among all documents of the part
REMOVED_SCHEMA = pa.schema([_POSITION, *LEDGER_SCHEMA])
"""Where a document came from and why it was removed. Never its text."""
KEPT_SCHEMA = pa.schema(
    [
        _POSITION,
        *(field for field in LEDGER_SCHEMA if field.name != "reason"),
        ("language", pa.string()),
        ("text", pa.string()),
        ("digest", pa.binary(_DIGEST_BYTES)),
        ("bytes", pa.int64()),
        ("characters", pa.int64()),
        ("words", pa.int64()),
        ("repaired", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class Part:
    """File ranges that are cleaned together, and the two files they are written to."""

    ranges: tuple[FileRange, ...]
    recipe: CorpusRecipe
    kept: Path
    removed: Path


def plan_parts(files: Sequence[InputFile], recipe: CorpusRecipe, folder: Path) -> list[Part]:
    """Divide the input into parts of about PART_BYTES each, in input order."""
    groups: list[list[FileRange]] = []
    held = PART_BYTES
    for file in files:
        ranges = READERS.get(file.reader).cut(file, recipe.sources[file.source], PART_BYTES)
        for file_range in ranges:
            size = file.size // len(ranges)
            if held + size // 2 >= PART_BYTES:
                groups.append([])
                held = 0
            groups[-1].append(file_range)
            held += max(1, size)
    return [
        Part(tuple(group), recipe, folder / f"kept-{index:06d}.parquet", folder / f"removed-{index:06d}.parquet")
        for index, group in enumerate(groups)
    ]


def clean_part(part: Part) -> None:
    """Write the kept and the removed documents of a part, unless an earlier run did."""
    if part.kept.exists():
        return
    recipe = part.recipe
    options: dict[str, Any] = {"compression": "lz4", "dictionary": ("source", "file")}
    # The file of kept documents is closed last: if it exists, the part is complete.
    with (
        parquet_writer(part.kept, KEPT_SCHEMA, **options) as kept_file,
        parquet_writer(part.removed, REMOVED_SCHEMA, **options) as removed_file,
    ):
        kept, removed = _RowBuffer(kept_file, KEPT_SCHEMA), _RowBuffer(removed_file, REMOVED_SCHEMA)
        position = 0
        for file_range in part.ranges:
            file = file_range.file
            source = recipe.sources[file.source]
            cleaning = recipe.cleaning(source.clean)
            repair = repairer(cleaning.unicode.html_entities) if cleaning.unicode.repair else str
            for raw in READERS.get(file.reader).read(file_range, source):
                repaired = repair(raw.text)
                text = repaired.strip() if cleaning.strip else repaired
                document = RepairedDocument(text, len(text.split()), source.language)
                origin = (position, file.source_name, file.name, raw.row, _storable(raw.id or f"{file.name}:{raw.row}"))
                position += 1
                reason = _removal_reason(document, cleaning.filters)
                if reason is not None:
                    removed.add((*origin, reason), _ROW_BYTES)
                    continue
                data = _encode(text, where=f"{file.path}:{raw.row}")
                # Whitespace around a document does not make it another one.
                compared = data if cleaning.strip else text.strip().encode()
                digest = blake2b(compared, digest_size=_DIGEST_BYTES).digest()
                counts = (len(data), len(text), document.words, repaired != raw.text)
                kept.add((*origin, source.language, data, digest, *counts), len(data) + _ROW_BYTES)
        kept.flush()
        removed.flush()


def _removal_reason(document: RepairedDocument, filters: Mapping[str, Filter]) -> str | None:
    if not document.words:
        return "empty"
    for name, rule in filters.items():
        reason = rule.reason(document)
        if reason is not None:
            return f"{name}.{reason}"
    return None


def _storable(key: str) -> str:
    """An id without NUL characters and lone surrogates, which Parquet cannot store."""
    return key if key.isascii() and "\0" not in key else key.replace("\0", "").encode("utf-8", "replace").decode()


def _encode(text: str, *, where: str) -> bytes:
    """Encode as UTF-8. Reject characters that must not reach a model; they are there only if repair is off."""
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        problem = f"a lone surrogate at character {error.start + 1} of the text"
    else:
        if b"\0" not in data:
            return data
        problem = f"a NUL character at character {text.index(chr(0)) + 1} of the text"
    raise InputError(
        problem,
        where=where,
        fix="Set unicode.repair = true (a source may have its own clean.unicode), or correct the file",
    )


class _RowBuffer:
    """Collects rows and writes them as a row group each time they are large enough."""

    def __init__(self, writer: Any, schema: Any) -> None:
        self._writer = writer
        self._schema = schema
        self._rows: list[tuple[Any, ...]] = []
        self._size = 0

    def add(self, row: tuple[Any, ...], size: int) -> None:
        self._rows.append(row)
        self._size += size
        if self._size >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            columns = zip(zip(*self._rows, strict=True), self._schema, strict=True)
            arrays = [pa.array(values, type=field.type) for values, field in columns]
            self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
            self._rows, self._size = [], 0


# Characters that ftfy removes or rewrites in any context: controls, unusual line ends, surrogates, deprecated format
# characters, the byte order mark.
_ODD = re.compile("[\x00-\x08\x0b\x0d-\x1f\x7f-\x9f\u2028\u2029\u206a-\u206f\ud800-\udfff\ufeff\ufff9-\ufffc]")
# Every pattern of ftfy's mojibake test has two neighbours outside ASCII, or is one of these two special cases.
_NEIGHBOURS = re.compile("[^\x00-\x7f](?:[^\x00-\x7f]+|(?<=[Œœ])[^A-Za-z]|(?<=[ÂÃ]) )")
_CONTEXT = 4
_LINES = re.compile(r"[^\n]*\n|[^\n]+")


@cache
def repairer(html_entities: bool = True) -> Callable[[str], str]:
    """Return a function that repairs one text as ftfy does, but calls ftfy only for suspicious lines."""
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
        # A slice can only look worse than its line (its start counts as the start of a line), so nothing is missed.
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
