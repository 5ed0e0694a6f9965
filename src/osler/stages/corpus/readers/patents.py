"""Patents as JSON Lines, as Google Patents and the USPTO export them; by default those with a medical classification code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from osler.core.config import Recipe
from osler.core.errors import InputError
from osler.core.parsing import parse_json
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import (
    BadRecord,
    FileRange,
    InputFile,
    LeftOut,
    RawDocument,
    joined,
    known,
    named_facts,
)
from osler.stages.corpus.inputs import cut_lines, decode, lines

_BETWEEN_CODES = re.compile(r"[;,|]")
_DAY = re.compile(r"(\d{4})(\d\d)(\d\d)")


class PatentOptions(Recipe):
    """Which patents are read, and from which fields."""

    codes: tuple[str, ...] = ("A61B", "A61C", "A61F", "A61H", "A61K", "A61L", "A61M", "A61P")
    """Keep patents with a classification code that begins with one of these; an empty list keeps all. The default is carrino2022's list."""
    code_fields: tuple[str, ...] = ("ipc", "cpc")
    """Fields with classification codes: texts, lists of texts, or lists of objects with a field `code`."""
    parts: tuple[str, ...] = ("title", "abstract", "description")
    """Fields with text, joined in this order. A missing field may also be called NAME_localized, as in Google Patents."""
    title_field: str = "title"
    """Field with the title."""
    date_field: str = "publication_date"
    """Field with the date."""
    number_field: str = "publication_number"
    """Field with the number of the patent, used as its id."""


class PatentReader:
    """Reads patents as JSON, one per line. Of several languages, the source's is read, or else the one with most text."""

    endings = ()
    options = PatentOptions

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FileRange]:
        return cut_lines(file, size)

    def read(self, file_range: FileRange, source: CorpusSource) -> Iterator[RawDocument | BadRecord | LeftOut]:
        path = file_range.file.path
        for row, line in lines(file_range):
            try:
                text = decode(line, source.encoding, path=path, row=row).strip()
                if text:
                    yield _patent(parse_json(text, where=f"{path}:{row}", lenient=True), row, source)
            except InputError as error:
                yield BadRecord(row, None, error.problem, error.fix)


def _patent(record: Any, row: int, source: CorpusSource) -> RawDocument | BadRecord | LeftOut:
    options = source.options
    assert isinstance(options, PatentOptions)
    if not isinstance(record, dict):
        return BadRecord(row, None, "the line does not hold an object", "Write one JSON object per line")
    parts = {name: _localized(record, name) for name in dict.fromkeys((*options.parts, options.title_field))}
    if not any(parts[name] for name in options.parts):
        problem = f"none of these fields holds a text: {', '.join(options.parts)}"
        return BadRecord(row, None, problem, "Name the fields in options.parts")
    number = record.get(options.number_field)
    key = str(number) if isinstance(number, str | int) else None
    codes = (code for name in options.code_fields for code in _codes(record.get(name)))
    if options.codes and not any(code.startswith(options.codes) for code in codes):
        return LeftOut(row, "patents.codes", key)
    sizes: Counter[str | None] = Counter()
    for name in options.parts:
        sizes.update({language: len(text) for language, text in parts[name].items()})
    language = max(sizes, key=lambda code: (code == source.language, sizes[code]))
    if source.language and language not in (None, source.language):
        return LeftOut(row, "patents.language", key)
    date = record.get(options.date_field)
    facts = known(
        title=parts[options.title_field].get(language),
        date=_DAY.sub(r"\1-\2-\3", str(date)) if isinstance(date, str | int) and date else None,
        language=language,
    )
    text = joined(parts[name].get(language) for name in options.parts)
    return RawDocument(row, text, key, facts | named_facts(record, source.facts))


def _localized(record: Mapping[str, Any], name: str) -> dict[str | None, str]:
    """Return the texts of a field by language; a text without one has that of the patent, if stated."""
    value = record.get(name, record.get(f"{name}_localized"))
    stated = record.get("language")
    found: dict[str | None, str] = {}
    for item in value if isinstance(value, list) else [value]:
        text, code = (item.get("text"), item.get("language")) if isinstance(item, dict) else (item, stated)
        if isinstance(text, str) and text.strip():
            found.setdefault(code.lower() if isinstance(code, str) and code else None, text)
    return found


def _codes(value: Any) -> Iterator[str]:
    for item in value if isinstance(value, list) else [value]:
        code = item.get("code") if isinstance(item, dict) else item
        if isinstance(code, str):
            yield from ("".join(part.split()).upper() for part in _BETWEEN_CODES.split(code))


READER = PatentReader()
