"""Annotated notes as HTML pages for people to read. They open from disk and load nothing.

Entities are marked by type; score and attributes are shown on hover, relations below each note. A page has `per_page` notes. If
there is more than one page, index.html lists them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from osler.core.files import write_atomic
from osler.formats.base import OutputFormat
from osler.formats.output import (
    ATTRIBUTES,
    DISCONTINUOUS,
    LABELS,
    RELATIONS,
    SCORES,
    SPANS,
    VALUES,
    OutputFolder,
    count_lost,
)
from osler.report.html import stylesheet
from osler.report.page import Page
from osler.text.document import Document, Record

_HOLDS = frozenset({SPANS, DISCONTINUOUS, RELATIONS, ATTRIBUTES, LABELS, VALUES, SCORES})
_CHARACTERS = 1 << 20
"""Characters after which a page ends: browsers become slow with more."""
_WARNING = "These pages hold the complete text of the notes. Keep them where you keep the notes."


@dataclass(frozen=True)
class NotePages(OutputFormat):
    """A folder of pages. `title` is shown at the top of each."""

    per_page: int = 50
    title: str = "Annotated notes"

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        OutputFolder(path, losses)
        listed: list[tuple[str, int, str, str]] = []
        for group in self._groups(records, losses):
            name = f"notes-{len(listed) + 1:05d}.html"
            first = sum(count for _, count, _, _ in listed) + 1
            page = Page(self.title, f"Notes {first:,} to {first + len(group) - 1:,}").text(_WARNING)
            for record in group:
                if isinstance(record, Document):
                    page.note(record, record.id)
                else:
                    page.pair(record, record.id)
            page.write(path / name)
            listed.append((name, len(group), group[0].id, group[-1].id))
        if len(listed) == 1:
            (path / listed[0][0]).rename(path / "index.html")
        else:
            write_atomic(path / "index.html", self._index(listed))

    def _groups(self, records: Iterable[Record], losses: Counter[str]) -> Iterator[list[Record]]:
        group: list[Record] = []
        size = 0
        for record in records:
            count_lost(record, losses, holds=_HOLDS)
            losses[SCORES] += len(record.scores)
            length = len(record.text) if isinstance(record, Document) else len(record.first) + len(record.second)
            if isinstance(record, Document):
                losses[ATTRIBUTES] += sum(len(relation.attributes) for relation in record.relations)
            if group and (len(group) >= self.per_page or size + length > _CHARACTERS):
                yield group
                group, size = [], 0
            group.append(record)
            size += length
        if group:
            yield group

    def _index(self, listed: list[tuple[str, int, str, str]]) -> str:
        rows = "".join(
            f'<li><a href="{name}">{escape(first)}{f" … {escape(last)}" if count > 1 else ""}</a> ({count:,})</li>\n'
            for name, count, first, last in listed
        )
        total = sum(count for _, count, _, _ in listed)
        return (
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(self.title)}</title>\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<style>{stylesheet()}</style></head>\n<body><main><h1>{escape(self.title)}</h1>\n"
            f"<p>{total:,} notes on {len(listed):,} pages. {_WARNING}</p>\n<ol>\n{rows}</ol></main></body></html>\n"
        )


FORMAT = NotePages("html", "HTML pages of notes with marked entities, for reading", (".html",), "folder")
