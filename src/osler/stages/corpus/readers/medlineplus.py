"""MedlinePlus XML: one document per health topic, in English or Spanish, or per definition of a term."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any, Literal, cast

from pydantic import Field

from osler.core.config import Recipe
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import (
    BadRecord,
    FileRange,
    InputFile,
    LeftOut,
    RawDocument,
    Reading,
    Revision,
    known,
)
from osler.stages.corpus.xml_records import inner_text, iso_date, read_blocks, release_date, xml_records

_LANGUAGES = {"English": "en", "Spanish": "es"}
_INLINE = {"a", "abbr", "b", "em", "font", "i", "small", "span", "strong", "sub", "sup", "u"}


class MedlinePlusOptions(Recipe):
    """What to read from health topics."""

    parts: tuple[Literal["title", "also_called", "summary"], ...] = Field(("title", "summary"), min_length=1)
    """Parts of a topic to read."""
    languages: tuple[Literal["en", "es"], ...] = Field(("en", "es"), min_length=1)
    """Languages to read."""


class MedlinePlusReader:
    """Reads the file of all health topics, and files of definitions, whose titles are the terms.

    Of several files of health topics, the latest version of each topic is kept.
    """

    endings = ()
    options = MedlinePlusOptions
    roots = ("health-topics", "generalHealth")

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FileRange]:
        return [FileRange(file, 0, file.size)]

    def read(self, file_range: FileRange, source: CorpusSource) -> Iterator[Reading]:
        options = cast(MedlinePlusOptions, source.options)
        release = release_date(file_range.file.path.name)
        for record in xml_records(read_blocks(file_range.file.path), "health-topic", "term-group"):
            if isinstance(record, BadRecord):
                yield record
                continue
            topic = record.element
            is_term = topic.tag == "term-group"  # definitions are in English only, and do not say so
            language = "en" if is_term else _LANGUAGES.get(topic.get("language", ""))
            if language in options.languages:
                yield _document(topic, record.row, language, release, options)
            else:
                yield LeftOut(record.row, "medlineplus.languages", topic.get("id"))


def _document(topic: Any, row: int, language: str, release: int, options: MedlinePlusOptions) -> RawDocument:
    title = " ".join((topic.get("title") or topic.findtext("term") or "").split())
    parts = {
        "title": title,
        "also_called": "\n".join(inner_text(name) for name in topic.iterfind("also-called")),
        "summary": _plain(topic.findtext("full-summary") or topic.findtext("definition") or ""),
    }
    month, day, year = (*topic.get("date-created", "").split("/"), "", "", "")[:3]
    key = topic.get("id", "")
    return RawDocument(
        row,
        "\n".join(parts[part] for part in options.parts if parts[part]),
        key or None,
        known(title=title, date=iso_date(year, month, day), language=language),
        Revision(int(key), release) if key.isdecimal() else None,
    )


def _plain(html: str) -> str:
    """Return the text of a piece of HTML, one line per paragraph, heading and list item."""
    reader = _Lines()
    reader.feed(html)
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.pieces).split("\0"))
    return "\n".join(line for line in lines if line)


class _Lines(HTMLParser):
    """Collects the text of HTML. NUL marks the end of a line, because line breaks have no meaning in HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        if tag not in _INLINE:
            self.pieces.append("\0")

    def handle_endtag(self, tag: str) -> None:
        self.handle_starttag(tag, ())

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)


READER = MedlinePlusReader()
