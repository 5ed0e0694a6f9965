"""JSON Lines: one object a line, its text and id in named fields."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from osler.core.errors import InputError
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import FilePart, InputFile, RawDocument
from osler.stages.corpus.inputs import cut_lines, decode, lines

_TYPES = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object", str: "a string"}
# Not strict: raw control characters inside strings are common in exports, and repair deals with them.
_DECODER = json.JSONDecoder(strict=False)


class JsonlReader:
    """Reads `.jsonl` files."""

    endings = (".jsonl", ".ndjson")

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FilePart]:
        """Lines can be read apart."""
        return cut_lines(file, size)

    def read(self, piece: FilePart, source: CorpusSource) -> Iterator[RawDocument]:
        """One document a line; blank lines are passed over."""
        path = piece.file.path
        for row, line in lines(piece):
            text = decode(line, source.encoding, path=path, row=row).strip()
            if text:
                yield _document(text, row, source, where=f"{path}:{row}")


def _document(line: str, row: int, source: CorpusSource, *, where: str) -> RawDocument:
    try:
        record = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        raise InputError(
            f"not valid JSON at character {error.pos + 1}: {error.msg.lower()}",
            where=where,
            fix="Write one JSON object a line",
        ) from None
    except RecursionError:
        raise InputError(
            "the JSON is nested too deeply", where=where, fix="Write one flat JSON object a line"
        ) from None
    if not isinstance(record, dict):
        raise InputError(
            f"the line holds {_kind(record)}, not an object", where=where, fix='Write {"id": ..., "text": ...}'
        )
    if source.text_field not in record:
        raise InputError(
            f"the object has no field {source.text_field!r}",
            where=where,
            fix="Set the source's text_field to the right name",
        )
    text = record[source.text_field]
    if text is None:
        text = ""
    if not isinstance(text, str):
        raise InputError(
            f"field {source.text_field!r} holds {_kind(text)}, not a string",
            where=where,
            fix="Set the source's text_field to the field with the text",
        )
    key = record.get(source.id_field)
    if key is not None and (isinstance(key, bool) or not isinstance(key, str | int)):
        raise InputError(
            f"field {source.id_field!r} holds {_kind(key)}, not a string or a whole number",
            where=where,
            fix="Set the source's id_field to another name",
        )
    return RawDocument(row, text, None if key is None else str(key))


def _kind(value: Any) -> str:
    return "null" if value is None else _TYPES[type(value)]


READER = JsonlReader()
