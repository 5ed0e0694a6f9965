"""Wikipedia: MediaWiki XML dumps, and the JSON that wikiextractor makes of them. Articles only, without redirects.

Categories are chosen with their subcategories down to a depth. Both come from `[[Category:...]]` links of the pages, in two passes: the
first reads the category pages of all files of the source, the second the articles. Links that a template makes are not seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import unescape
from pathlib import Path

from pydantic import Field

from osler.core.config import Recipe
from osler.core.errors import InputError
from osler.core.parsing import parse_json
from osler.formats import xml
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import BadRecord, FileRange, InputFile, LeftOut, RawDocument, known
from osler.stages.corpus.inputs import cut_lines, decode, find_inputs, lines, ranges_from
from osler.stages.corpus.opening import open_bytes, reading

_LONGEST_PAGE = 16 << 20
_CATEGORY, _FILE = 14, 6
_NAMESPACE = re.compile(rb"<ns>(-?\d+)</ns>")
_SITE_NAMESPACE = re.compile(r'<namespace key="(-?\d+)"[^>]*>([^<]+)</namespace>')
_SITE_LANGUAGE = re.compile(r'<mediawiki[^>]*\sxml:lang="([a-z]{2,3})\b')
_PAGE_ID = re.compile(rb"<id>(\d+)</id>")

_DROPPED = (
    "categorytree|ce|chem|gallery|graph|hiero|imagemap|indicator|inputbox|mapframe|maplink|math|ref|references|score|section|source|"
    "style|syntaxhighlight|table|templatestyles|timeline"
)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_DROPPED_TAG = re.compile(rf"<({_DROPPED})\b(?:[^<>]*/>|[^<>]*>.{{0,100000}}?</\1\s*>)", re.DOTALL | re.IGNORECASE)
_POWER = re.compile(r"<sup>(?<=\d<sup>)(?=[-−–]?\d+</sup>)")
_BLOCK_TAG = re.compile(
    r"</?(?:blockquote|br|center|dd|div|dl|dt|h[1-6]|hr|li|ol|p|poem|pre|ul)\b[^<>]*>", re.IGNORECASE
)
_TAG = re.compile(
    rf"</?(?:{_DROPPED}|abbr|b|bdi|big|cite|code|del|dfn|em|font|i|includeonly|ins|kbd|mark|noinclude|nowiki|onlyinclude|q|rb|rp|rt|"
    r"ruby|s|samp|small|span|strike|strong|sub|sup|tt|u|var|wbr)\b[^<>]*>",
    re.IGNORECASE,
)
_WEB_LINK = re.compile(r"\[(?:https?:|ftp:|mailto:)?//[^\s\[\]]*([^\[\]\n]*)\]")
_ADDRESS = re.compile(r"https?://[^\s<>\[\]|{}]+(?<![.,;:!?)])")
# A link without another link in it; brackets inside it are pairs.
_LINK = re.compile(r"\[\[([^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)\]\]")
_LANGUAGE_PREFIX = re.compile(r"[a-z]{2,3}(?:-[a-z-]+)?")
_TEMPLATE = re.compile(r"\{\{([^{}]*)\}\}")
_DEEPEST = 20
_SHOWN = dict.fromkeys(["abbr", "mvar", "nobold", "nowrap", "small", "smaller", "sub", "sup", "var"], 0) | {"lang": 1}
"""Templates that show one of their arguments, by its position."""
_QUANTITIES = ("convert", "cvt", "frac", "val")
_RANGE = ("-", "–", "and", "by", "or", "to", "x")
_HEADING_LINE = re.compile(r"(={1,6})\s*(.+?)\s*\1\s*")
_LIST = re.compile(r"[*#:;]+\s*")
_SWITCH = re.compile(r"__[A-Z]+__")
_QUOTES = re.compile(r"'{2,5}")
_EMPTY_BRACKETS = re.compile(r"[(（][\s,;:–-]*[)）]")
_AFTER_BRACKET = re.compile(r"([(（])[ \t]*[,;:][ \t,;:]*")


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
    """Names of the namespace of categories."""
    hidden: frozenset[str]
    """Names of namespaces to which links show nothing, in lower case."""

    def linked_categories(self, text: str) -> list[str]:
        """Categories that a page is in."""
        return [_title(name) for name in _links(self.categories).findall(text)]


class WikipediaReader:
    """Reads MediaWiki dumps (XML) and wikiextractor's files (JSON Lines). The id is that of the page.

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
        return ranges_from(file, starts)

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
    date = (page.findtext("revision/timestamp") or "")[:10]
    facts = known(title=page.findtext("title"), date=date, language=site.language)
    return RawDocument(row, _plain(markup, site), key, facts)


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
            yield RawDocument(row, record["text"], key, known(title=title if isinstance(title, str) else None))
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
    categories = ("Category", local.get(_CATEGORY, "Category"))
    hidden = frozenset(name.lower() for name in (*categories, "File", "Image", local.get(_FILE, "File")))
    return _Site(language[1] if language else None, categories, hidden)


@lru_cache(maxsize=16)
def _links(names: Sequence[str]) -> re.Pattern[str]:
    return re.compile(rf"\[\[\s*(?:{'|'.join(map(re.escape, names))})\s*:\s*([^\]\[|#]+)", re.IGNORECASE)


def _title(name: str) -> str:
    """A title as MediaWiki compares it: spaces for underscores, the first letter in upper case."""
    name = " ".join(name.replace("_", " ").split())
    return name[:1].upper() + name[1:]


# Markup ---------------------------------------------------------------------------------------------------------------


def _plain(markup: str, site: _Site) -> str:
    """The text of an article: headings, paragraphs and lists. References, tables, files and most templates are dropped."""
    text = _DROPPED_TAG.sub("", _COMMENT.sub("", markup))
    text = _innermost_first(_LINK, lambda link: _link_text(link[1], site), _WEB_LINK.sub(r"\1", text))
    text = _innermost_first(_TEMPLATE, lambda template: _template_text(template[1]), text)
    text = _TAG.sub("", _BLOCK_TAG.sub("\n", _POWER.sub("^", _ADDRESS.sub("", text))))
    return _lines(unescape(_QUOTES.sub("", _SWITCH.sub("", text))))


def _innermost_first(pattern: re.Pattern[str], replacement: Callable[[re.Match[str]], str], text: str) -> str:
    for _ in range(_DEEPEST):
        text, count = pattern.subn(replacement, text)
        if not count:
            break
    return text


def _link_text(link: str, site: _Site) -> str:
    """What a link shows: nothing for files, categories and the article in other languages."""
    target, bar, label = link.partition("|")
    prefix, colon, _ = (part.strip() for part in target.partition(":"))
    if colon and (prefix.lower() in site.hidden or (not bar and _LANGUAGE_PREFIX.fullmatch(prefix))):
        return ""
    return label if label else target.strip().removeprefix(":")


def _template_text(template: str) -> str:
    """What a template shows, for the few without which a sentence has a gap: quantities, phrases, words in other languages."""
    name, _, rest = template.partition("|")
    name = name.strip().lower()
    if name not in _SHOWN and name not in _QUANTITIES and not name.startswith("lang-"):
        return ""
    arguments = [part.strip() for part in rest.split("|")]
    plain = [argument for argument in arguments if "=" not in argument]
    if name in ("convert", "cvt"):
        return " ".join(plain[:4] if plain[1:2] and plain[1] in _RANGE else plain[:2])
    if name == "val":
        unit = next((value for key, _, value in (item.partition("=") for item in arguments) if key in ("u", "ul")), "")
        return " ".join(filter(None, [*plain[:1], unit]))
    if name == "frac":
        return " ".join([*plain[:-2], "/".join(plain[-2:])])
    position = _SHOWN.get(name, 0)
    return "".join(plain[position : position + 1])


def _lines(text: str) -> str:
    """Remove tables, and what dropped markup leaves behind: empty brackets, blank lines, headings without text."""
    lines: list[tuple[int, str]] = []  # the level of a heading, or 9 for text
    tables = 0
    text = _EMPTY_BRACKETS.sub("\0", text).replace(" \0", "").replace("\0", "")
    for line in _AFTER_BRACKET.sub(r"\1", text).split("\n"):
        line = " ".join(line.split())
        heading = _HEADING_LINE.fullmatch(line) if line.startswith("=") else None
        tables = 0 if heading else tables + line.lstrip(":").startswith("{|")
        if tables:
            tables -= line.startswith("|}")
        elif heading:
            lines.append((len(heading[1]), heading[2]))
        elif line.startswith(("*", "#", ":", ";")):
            marker = _LIST.match(line)[0].rstrip()  # type: ignore[index]
            line = line[len(marker) :].strip()
            lines.append((9, f"- {line}" if line and marker[-1] in "*#" else line))
        elif not line.startswith(("|}", "|-")):
            lines.append((9, line))
    kept: list[str] = []
    below = 0  # level of the nearest line below that is kept
    for level, line in reversed(lines):
        if level == 9:
            kept.append(line)
            below = level if line else below
        elif below > level:
            kept += ["", line, ""]
            below = level
    return re.sub(r"\n{3,}", "\n\n", "\n".join(reversed(kept))).strip()


READER = WikipediaReader()
