"""Wikipedia: MediaWiki XML dumps, and the JSON that wikiextractor makes of them. Articles only, without redirects.

Categories are chosen with their subcategories down to a depth. Both come from `[[Category:...]]` links of the pages, in two passes: the
first reads the category pages of all files of the source, the second the articles. Links that a template makes are not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field

from osler.core.config import Recipe
from osler.core.errors import InputError
from osler.core.extras import require
from osler.core.parsing import parse_json
from osler.formats import xml
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import BadRecord, FileRange, InputFile, LeftOut, RawDocument
from osler.stages.corpus.inputs import cut_lines, decode, find_inputs, lines
from osler.stages.corpus.opening import open_bytes, reading

_LONGEST_PAGE = 16 << 20
_CATEGORY, _FILE = 14, 6
_NAMESPACE = re.compile(rb"<ns>(-?\d+)</ns>")
_SITE_NAMESPACE = re.compile(r'<namespace key="(-?\d+)"[^>]*>([^<]+)</namespace>')
_SITE_LANGUAGE = re.compile(r'<mediawiki[^>]*\sxml:lang="([a-z]{2,3})\b')
_PAGE_ID = re.compile(rb"<id>(\d+)</id>")

_DROPPED = frozenset(
    [
        "ref",
        "references",
        "table",
        "gallery",
        "math",
        "chem",
        "ce",
        "timeline",
        "score",
        "syntaxhighlight",
        "source",
        "imagemap",
        "graph",
        "mapframe",
        "maplink",
        "style",
        "templatestyles",
        "section",
        "indicator",
        "hiero",
        "inputbox",
        "categorytree",
    ]
)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_REFERENCE = re.compile(r"<ref\b[^<>]*/>|<ref\b[^<>]*>.*?</ref\s*>", re.DOTALL | re.IGNORECASE)
_INNERMOST_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
_NESTED_TEMPLATES = 8
_SWITCH = re.compile(r"__[A-Z]+__")
_QUOTES = re.compile(r"'{2,5}")
_EMPTY_BRACKETS = re.compile(r"[ \t]*[(（][\s,;:–-]*[)）]")
_HEADING = "\x01"
_SPACES = re.compile(r"[ \t\xa0]+")


class WikipediaOptions(Recipe):
    """Which articles are read."""

    categories: tuple[str, ...] = ()
    """Categories, without the prefix, of which an article must be in one; by default all articles are read."""
    depth: int = Field(5, ge=0)
    """How many levels of subcategories belong to a category; 0 means none. carrino2022 has 5."""


@dataclass(frozen=True)
class _Site:
    """What the head of a dump says about its wiki."""

    language: str | None
    categories: tuple[str, ...]
    files: tuple[str, ...]

    def linked_categories(self, text: str) -> list[str]:
        """Categories that a page is in."""
        return [_title(name) for name in _links(self.categories).findall(text)]


class WikipediaReader:
    """Reads MediaWiki dumps (XML; extra `web`) and wikiextractor's files (JSON Lines). The id is that of the page.

    Redirects and pages other than articles are left out. A document's row is the line where its page begins.
    """

    endings = ()
    roots = ("mediawiki",)
    options = WikipediaOptions

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FileRange]:
        ranges = cut_lines(file, size)
        if len(ranges) == 1 or _is_json(file.path):
            return ranges
        starts = [(0, 1)]
        with reading(file.path), open(file.path, "rb") as handle:
            for proposed in ranges[1:]:
                handle.seek(max(proposed.start, starts[-1][0]))
                if handle.tell() != proposed.start:  # the page before it is longer than a range
                    continue
                row = proposed.first_row
                while (line := handle.readline()) and line.strip() != b"<page>":
                    row += 1
                if line:
                    starts.append((handle.tell() - len(line), row))
        stops = [*(start for start, _ in starts[1:]), file.size]
        return [FileRange(file, start, stop, row) for (start, row), stop in zip(starts, stops, strict=True)]

    def read(self, file_range: FileRange, source: CorpusSource) -> Iterator[RawDocument | BadRecord | LeftOut]:
        options = source.options
        assert isinstance(options, WikipediaOptions)
        path = file_range.file.path
        if _is_json(path):
            if options.categories:
                raise InputError(
                    "wikiextractor's files have no categories", where=path, fix="Give the XML dump instead"
                )
            yield from _extracted(file_range, source)
            return
        site = _site(path)
        wanted = _wanted_categories(source.files, options) if options.categories else None
        for page in _pages(file_range):
            if isinstance(page, BadRecord):
                yield page
                continue
            row, data = page
            key = match[1].decode() if (match := _PAGE_ID.search(data)) else None
            if _namespace(data) != 0:
                yield LeftOut(row, "wikipedia.namespace", key)
            elif b"<redirect " in data:
                yield LeftOut(row, "wikipedia.redirects", key)
            else:
                yield _article(row, key, data, site, wanted, where=f"{path}:{row}")


def _article(
    row: int, key: str | None, data: bytes, site: _Site, wanted: frozenset[str] | None, *, where: str
) -> RawDocument | BadRecord | LeftOut:
    try:
        page = xml.parse(data, where)
    except InputError as error:
        return BadRecord(row, None, error.problem, error.fix)
    markup = page.findtext("revision/text") or ""
    if wanted is not None and wanted.isdisjoint(site.linked_categories(markup)):
        return LeftOut(row, "wikipedia.categories", key)
    parser = require("mwparserfromhell", "web")
    try:
        text = _clean(_plain(parser.parse(_without_extras(markup), skip_style_tags=True), site))
    except (parser.parser.ParserError, RecursionError):
        return BadRecord(row, None, "the markup of this page cannot be read")
    stated = {
        "title": page.findtext("title"),
        "date": (page.findtext("revision/timestamp") or "")[:10],
        "language": site.language,
    }
    return RawDocument(row, text, key, {fact: value for fact, value in stated.items() if value})


def _pages(file_range: FileRange) -> Iterator[tuple[int, bytes] | BadRecord]:
    """First line and XML of every page. In a dump, the tags of a page stand on lines of their own, and nowhere else."""
    held: list[bytes] = []
    first = size = 0
    for row, line in lines(file_range):
        tag = line.strip() if b"page>" in line else b""
        if tag == b"<page>":
            if held:
                yield BadRecord(first, None, "this page does not end before the next begins", "Download the dump again")
            held, first, size = [line], row, len(line)
        elif held:
            held.append(line)
            size += len(line) + 1
            if tag == b"</page>":
                yield first, b"\n".join(held)
                held = []
            elif size > _LONGEST_PAGE:
                yield BadRecord(first, None, "this page does not end", "Download the dump again")
                held = []
    if held:
        yield BadRecord(first, None, "the file ends inside this page", "Download the dump again")


def _namespace(page: bytes) -> int | None:
    match = _NAMESPACE.search(page)
    return int(match[1]) if match else None


def _extracted(file_range: FileRange, source: CorpusSource) -> Iterator[RawDocument | BadRecord | LeftOut]:
    path = file_range.file.path
    for row, line in lines(file_range):
        try:
            record = parse_json(
                decode(line, source.encoding, path=path, row=row) or "null", where=f"{path}:{row}", lenient=True
            )
        except InputError as error:
            yield BadRecord(row, None, error.problem, error.fix)
            continue
        if record is None:
            continue
        if not isinstance(record, dict) or not isinstance(record.get("text"), str):
            yield BadRecord(
                row, None, "the line is no article of wikiextractor", 'Write {"id": ..., "title": ..., "text": ...}'
            )
            continue
        key = str(record["id"]) if record.get("id") is not None else None
        title = record.get("title")
        if record["text"]:
            yield RawDocument(row, record["text"], key, {"title": title} if isinstance(title, str) and title else {})
        else:
            yield LeftOut(row, "wikipedia.redirects", key)


def _is_json(path: Path) -> bool:
    with reading(path), open_bytes(path) as handle:
        return handle.read(64).lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"{")


# Categories -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _wanted_categories(files: tuple[str, ...], options: WikipediaOptions) -> frozenset[str]:
    """The chosen categories and their subcategories. Every worker process reads them once, so nothing has to be shared."""
    below: dict[str, list[str]] = {}
    for file in find_inputs([CorpusSource(files=files, reader="wikipedia")]):
        site = _site(file.path)
        for page in _pages(FileRange(file, 0, file.size)):
            if isinstance(page, BadRecord) or _namespace(page[1]) != _CATEGORY:
                continue
            try:
                element = xml.parse(page[1], f"{file.path}:{page[0]}")
            except InputError:
                continue  # the second pass reports it
            name = _title((element.findtext("title") or "").partition(":")[2])
            for parent in site.linked_categories(element.findtext("revision/text") or ""):
                below.setdefault(parent, []).append(name)
    level = {_title(name) for name in options.categories}
    found = set(level)
    for _ in range(options.depth):
        level = {name for parent in level for name in below.get(parent, ())} - found
        found |= level
    return frozenset(found)


def _site(path: Path) -> _Site:
    head: list[bytes] = []
    with reading(path), open_bytes(path) as handle:
        for line in handle:
            head.append(line)
            if b"</siteinfo>" in line or b"<page>" in line or len(head) > 1000:
                break
    text = b"".join(head).decode("utf-8", "replace")
    language = _SITE_LANGUAGE.search(text)
    local = {int(key): name for key, name in _SITE_NAMESPACE.findall(text)}
    return _Site(
        language[1] if language else None,
        tuple(dict.fromkeys(("Category", local.get(_CATEGORY, "Category")))),
        tuple(dict.fromkeys(("File", "Image", local.get(_FILE, "File")))),
    )


@lru_cache(maxsize=16)
def _links(names: Sequence[str]) -> re.Pattern[str]:
    return re.compile(rf"\[\[\s*(?:{'|'.join(map(re.escape, names))})\s*:\s*([^\]\[|#]+)", re.IGNORECASE)


def _title(name: str) -> str:
    """A title as MediaWiki compares it: spaces for underscores, the first letter in upper case."""
    name = " ".join(name.replace("_", " ").split())
    return name[:1].upper() + name[1:]


# Markup ---------------------------------------------------------------------------------------------------------------


def _without_extras(markup: str) -> str:
    """Markup without comments, references and most templates. All are dropped in any case; parsing them takes half the time."""
    markup = _REFERENCE.sub("", _COMMENT.sub("", markup))
    for _ in range(_NESTED_TEMPLATES):
        markup, removed = _INNERMOST_TEMPLATE.subn("", markup)
        if not removed:
            break
    return markup


def _plain(code: Any, site: _Site) -> str:
    """The text of parsed markup. Templates, tables, references, files and categories are dropped."""
    parts = []
    for node in code.nodes:
        kind = type(node).__name__
        if kind == "Text":
            parts.append(node.value)
        elif kind == "Wikilink":
            parts.append(_link_text(node, site))
        elif kind == "Tag":
            parts.append(_tag_text(node, site))
        elif kind == "Heading":
            parts.append(f"\n{_HEADING}{node.level}{_plain(node.title, site).strip()}\n")
        elif kind == "ExternalLink" and node.title is not None:
            parts.append(_plain(node.title, site))
        elif kind == "HTMLEntity":
            parts.append(node.normalize() or "")
    return "".join(parts)


def _link_text(link: Any, site: _Site) -> str:
    target = str(link.title).strip()
    prefix, colon, _ = target.partition(":")
    if colon and prefix.strip().lower() in {name.lower() for name in (*site.categories, *site.files)}:
        return ""
    return _plain(link.text, site) if link.text is not None else target.lstrip(":")


def _tag_text(tag: Any, site: _Site) -> str:
    name = str(tag.tag).strip().lower()
    if name in _DROPPED:
        return ""
    if name in ("br", "hr"):
        return "\n"
    if name == "li" and tag.wiki_markup:
        return "- " if tag.wiki_markup[-1:] in "*#" else ""
    return _plain(tag.contents, site) if tag.contents is not None else ""


def _clean(text: str) -> str:
    """Remove what dropped markup leaves behind: empty brackets, blank lines, headings without text."""
    text = _EMPTY_BRACKETS.sub("", _QUOTES.sub("", _SWITCH.sub("", text)))
    kept: list[str] = []
    below = 0  # level of the nearest line below: that of a heading, or 9 for text
    for line in reversed(text.split("\n")):
        line = _SPACES.sub(" ", line).strip()
        if line.startswith(_HEADING):
            level = int(line[1:2])
            if below > level and line[2:].strip():
                kept += ["", line[2:].strip(), ""]
                below = level
        elif line and line != "-":
            kept.append(line)
            below = 9
        else:
            kept.append("")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(reversed(kept))).strip()


READER = WikipediaReader()
