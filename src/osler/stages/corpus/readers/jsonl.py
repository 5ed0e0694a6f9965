"""JSON Lines: one object per line, with text and id in named fields."""

from __future__ import annotations

from collections.abc import Iterator

from osler.core.errors import InputError
from osler.core.parsing import json_kind, parse_json
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import BadRecord, FileRange, InputFile, RawDocument, joined, named_facts
from osler.stages.corpus.inputs import cut_lines, decode, lines


class JsonlReader:
    """Reads `.jsonl` files; empty lines are skipped."""

    endings = (".jsonl", ".ndjson")
    options = None

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FileRange]:
        return cut_lines(file, size)

    def read(self, file_range: FileRange, source: CorpusSource) -> Iterator[RawDocument | BadRecord]:
        path = file_range.file.path
        for row, line in lines(file_range):
            try:
                text = decode(line, source.encoding, path=path, row=row).strip()
                if text:
                    yield _document(text, row, source, where=f"{path}:{row}")
            except InputError as error:
                yield BadRecord(row, None, error.problem, error.fix)


def _document(line: str, row: int, source: CorpusSource, *, where: str) -> RawDocument:
    def invalid(problem: str, fix: str) -> InputError:
        return InputError(problem, where=where, fix=fix)

    # Lenient: raw control characters inside strings are common in exports, and Unicode repair removes them.
    record = parse_json(line, where=where, lenient=True)
    if not isinstance(record, dict):
        raise invalid(f"the line holds {json_kind(record)}, not an object", 'Write {"id": ..., "text": ...}')
    naming = "Name the field with the text: --text-field, or text_field in the source"
    for name in source.texts():
        if name not in record:
            raise invalid(f"the object has no field {name!r}", naming)
        if record[name] is not None and not isinstance(record[name], str):
            raise invalid(f"field {name!r} holds {json_kind(record[name])}, not a string", naming)
    text, key = joined(record[name] for name in source.texts()), record.get(source.id_field)
    if key is not None and (isinstance(key, bool) or not isinstance(key, str | int)):
        problem = f"field {source.id_field!r} holds {json_kind(key)}, not a string or an integer"
        raise invalid(problem, "Set the source's id_field to another name")
    return RawDocument(row, text, None if key is None else str(key), named_facts(record, source.facts))


READER = JsonlReader()
