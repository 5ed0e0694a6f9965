"""Self-contained HTML reports that open from disk and load nothing. Only listings of documents use a script."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path

from osler.core.files import write_atomic
from osler.report.colours import Colour, label_colours
from osler.report.html import listing_script, render, stylesheet
from osler.report.notes import note_css, note_html
from osler.report.tables import Table, html_table
from osler.text.document import Document, TextPair

Block = Callable[[dict[str, Colour]], str]
"""A part of a page, rendered once the colours of all labels are known."""
PAGE_SIZE = 20
"""Documents per page of a listing."""


@dataclass
class _Section:
    title: str = ""
    anchor: str = ""
    blocks: list[Block] = field(default_factory=list)


@dataclass(frozen=True)
class ListedRecord:
    """A document or pair in a listing, with the values to filter it by."""

    record: Document | TextPair
    caption: str = ""
    tags: Sequence[Sequence[Sequence[str]]] = ()
    """For each error in it: the values of every filter."""


class Page:
    """A page built block by block. Methods return the page, so calls can be chained.

    Only `note`, `pair` and `listing` blocks show document text. Do not put document text into captions, titles or table cells
    unless the top of the page says that it contains documents. Notes and pairs get the anchors n1, n2, … in order.
    """

    def __init__(self, title: str, subtitle: str = "", *, language: str = "en") -> None:
        self.title = title
        self.subtitle = subtitle
        self.language = language
        self._sections = [_Section()]
        self._notes: list[Document | None] = []
        self._listed = False

    def heading(self, text: str) -> Page:
        """Start a section."""
        anchor = name = "s-" + (re.sub(r"[^\w]+", "-", text.lower()).strip("-") or "section")
        number = 1
        while any(section.anchor == anchor for section in self._sections):
            number += 1
            anchor = f"{name}-{number}"
        self._sections.append(_Section(text, anchor))
        return self

    def text(self, text: str) -> Page:
        """Add paragraphs separated by blank lines; lines starting with "- " are a list; **strong** and `code` work."""
        return self._add("text.html", paragraphs=_paragraphs(text))

    def numbers(self, numbers: Iterable[tuple[str, str] | tuple[str, str, str]]) -> Page:
        """Add headline numbers in large type: (name, value) or (name, value, hint)."""
        return self._add("numbers.html", numbers=[(*number, "")[:3] for number in numbers])

    def definitions(self, pairs: Iterable[tuple[str, str]]) -> Page:
        """Add names and values, such as the settings of a run."""
        return self._add("definitions.html", pairs=list(pairs))

    def table(self, table: Table) -> Page:
        self._sections[-1].blocks.append(lambda _: html_table(table))
        return self

    def figure(self, svg: str, caption: str) -> Page:
        """Add an SVG plot as an image, so that nothing in it can run or clash. Its <desc> becomes the alt text."""
        source = "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
        size = re.search(r'<svg[^>]*? viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
        width, height = (round(float(side) * 4 / 3) for side in size.groups()) if size else (0, 0)
        description = re.search(r"<desc>(.*?)</desc>", svg, re.DOTALL)
        alt = unescape(description[1]) if description else caption
        return self._add("figure.html", source=source, alt=alt, caption=caption, width=width, height=height)

    def note(self, document: Document, caption: str = "", *, shown: Collection[str] = ()) -> Page:
        """Add a document with its mentions and relations. A label has the same colour in all notes of the page."""
        self._sections[-1].blocks.append(self._record_block(document, caption, shown))
        return self

    def pair(self, pair: TextPair, caption: str = "") -> Page:
        """Add a pair of texts side by side, with its labels."""
        self._sections[-1].blocks.append(self._record_block(pair, caption))
        return self

    def beside(self, first: Document, second: Document, captions: tuple[str, str]) -> Page:
        """Add two documents side by side, such as before and after a change. On a narrow screen they are stacked."""
        blocks = [
            self._record_block(record, caption) for record, caption in zip((first, second), captions, strict=True)
        ]
        self._sections[-1].blocks.append(
            lambda colours: '<div class="beside">' + "".join(block(colours) for block in blocks) + "</div>"
        )
        return self

    def listing(
        self,
        records: Sequence[ListedRecord],
        *,
        filters: Sequence[str] = (),
        shown: Collection[str] = (),
    ) -> Page:
        """Add a paged list of documents or pairs, with a menu for each filter. The first page works without the script."""
        blocks = [self._record_block(item.record, item.caption, shown) for item in records]
        tags = [json.dumps(item.tags, ensure_ascii=False) for item in records]
        options = []
        for place, name in enumerate(filters):
            counts = Counter(value for item in records for value in {v for tag in item.tags for v in tag[place]})
            options.append((name, sorted(counts.items())))
        self._listed = True

        def block(colours: dict[str, Colour]) -> str:
            items = list(zip(tags, [made(colours) for made in blocks], strict=True))
            return render("listing.html", items=items, filters=options, size=PAGE_SIZE)

        self._sections[-1].blocks.append(block)
        return self

    def render(self) -> str:
        """Return the page as HTML. The same blocks give the same bytes."""
        colours = label_colours(span.label for document in self._notes if document for span in document.spans)
        sections = [
            {"title": section.title, "anchor": section.anchor, "blocks": [block(colours) for block in section.blocks]}
            for section in self._sections
            if section.blocks or section.title
        ]
        script, script_hash = listing_script() if self._listed else ("", "")
        named = [(section.anchor, section.title) for section in self._sections if section.title]
        return render(
            "page.html",
            title=self.title,
            subtitle=self.subtitle,
            language=self.language,
            style=stylesheet(),
            note_style="".join(note_css(note, f"n{i}") for i, note in enumerate(self._notes, 1) if note),
            contents=named if len(named) > 2 else [],
            sections=sections,
            script=script,
            script_hash=script_hash,
        )

    def write(self, path: Path) -> Path:
        write_atomic(path, self.render() + "\n")
        return path

    def _record_block(self, record: Document | TextPair, caption: str, shown: Collection[str] = ()) -> Block:
        """Register a document or pair under the next anchor and return its block."""
        document = record if isinstance(record, Document) else None
        self._notes.append(document)
        name = f"n{len(self._notes)}"
        if document is None:
            return lambda _: render("pair.html", pair=record, caption=caption, name=name)
        return lambda colours: note_html(document, colours, caption=caption, name=name, shown=shown)

    def _add(self, template: str, **context: object) -> Page:
        self._sections[-1].blocks.append(lambda _: render(template, **context))
        return self


def _paragraphs(text: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        if lines and all(line.startswith("- ") for line in lines):
            found.append({"bullets": [_parts(line[2:]) for line in lines], "line": []})
        elif lines:
            found.append({"bullets": [], "line": _parts(" ".join(lines))})
    return found


def _parts(line: str) -> list[tuple[str, str]]:
    """Split a line into (kind, text), where kind is strong, code or empty for plain text."""
    parts: list[tuple[str, str]] = []
    position = 0
    for match in re.finditer(r"\*\*(?P<strong>.+?)\*\*|`(?P<code>.+?)`", line):
        kind = "strong" if match["strong"] is not None else "code"
        parts += [("", line[position : match.start()]), (kind, match[kind])]
        position = match.end()
    return [*parts, ("", line[position:])]
