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
    def invalid(problem: str, fix: str) -> InputError:
        return InputError(problem, where=where, fix=fix)

    try:
        record = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        problem = f"not valid JSON at character {error.pos + 1}: {error.msg.lower()}"
        raise invalid(problem, "Write one JSON object per line") from None
    except RecursionError:
        raise invalid("the JSON is nested too deeply", "Write one flat JSON object per line") from None
    if not isinstance(record, dict):
        raise invalid(f"the line holds {_kind(record)}, not an object", 'Write {"id": ..., "text": ...}')
    name = source.text_field
    if name not in record:
        raise invalid(
            f"the object has no field {name!r}",
            "Name the field with the text: --text-field, or text_field in the source",
        )
    text, key = record[name], record.get(source.id_field)
    if text is not None and not isinstance(text, str):
        problem = f"field {name!r} holds {_kind(text)}, not a string"
        raise invalid(problem, "Name the field with the text: --text-field, or text_field in the source")
    if key is not None and (isinstance(key, bool) or not isinstance(key, str | int)):
        problem = f"field {source.id_field!r} holds {_kind(key)}, not a string or an integer"
        raise invalid(problem, "Set the source's id_field to another name")
    return RawDocument(row, text or "", None if key is None else str(key))


def _kind(value: Any) -> str:
    return "null" if value is None else _TYPES[type(value)]


READER = JsonlReader()
