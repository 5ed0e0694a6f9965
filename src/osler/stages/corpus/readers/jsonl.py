"""JSON Lines: one object per line, with text and id in named fields."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from osler.core.errors import InputError
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import FileRange, InputFile, RawDocument
from osler.stages.corpus.inputs import cut_lines, decode, lines

_TYPES = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object", str: "a string"}
# Not strict: raw control characters inside strings are common in exports, and Unicode repair removes them.
_DECODER = json.JSONDecoder(strict=False)


class JsonlReader:
    """Reads `.jsonl` files; empty lines are skipped."""

    endings = (".jsonl", ".ndjson")

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FileRange]:
        return cut_lines(file, size)

    def read(self, file_range: FileRange, source: CorpusSource) -> Iterator[RawDocument]:
        path = file_range.file.path
        for row, line in lines(file_range):
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
            fix="Write one JSON object per line",
        ) from None
    except RecursionError:
        raise InputError(
            "the JSON is nested too deeply", where=where, fix="Write one flat JSON object per line"
        ) from None
    if not isinstance(record, dict):
        raise InputError(
            f"the line holds {_kind(record)}, not an object", where=where, fix='Write {"id": ..., "text": ...}'
        )
    if source.text_field not in record:
        raise InputError(
            f"the object has no field {source.text_field!r}",
            where=where,
            fix="Set the source's text_field to the field with the text",
        )
    text = record[source.text_field]
    if text is not None and not isinstance(text, str):
        raise InputError(
            f"field {source.text_field!r} holds {_kind(text)}, not a string",
            where=where,
            fix="Set the source's text_field to the field with the text",
        )
    key = record.get(source.id_field)
    if key is not None and (isinstance(key, bool) or not isinstance(key, str | int)):
        raise InputError(
            f"field {source.id_field!r} holds {_kind(key)}, not a string or an integer",
            where=where,
            fix="Set the source's id_field to another name",
        )
    return RawDocument(row, text or "", None if key is None else str(key))


def _kind(value: Any) -> str:
    return "null" if value is None else _TYPES[type(value)]


READER = JsonlReader()
