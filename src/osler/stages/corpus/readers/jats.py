"""JATS XML (PMC, SciELO and other publishers): one document per article, or per section of it.

A file is one article, several of them, or a tar archive of such files. References, footnotes and displayed formulas are left out.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import Field

from osler.core.config import Recipe
from osler.core.errors import InputError
from osler.formats import xml
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import (
    BadRecord,
    FileRange,
    InputFile,
    LeftOut,
    RawDocument,
    Reading,
    Revision,
    Withdrawn,
    creative_commons,
    known,
)
from osler.stages.corpus.opening import open_bytes, reading
from osler.stages.corpus.xml_records import (
    XmlRecord,
    inner_text,
    is_power,
    iso_date,
    read_blocks,
    release_date,
    xml_records,
)

_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_HREF = "{http://www.w3.org/1999/xlink}href"
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_LINES = frozenset(
    re.findall(
        r"\S+",
        "abstract article-title body boxed-text caption def def-item disp-quote fig fig-group list list-item p sec sig-block speech "
        "statement subtitle table-wrap term title trans-title verse-group verse-line",
    )
)
_LEFT_OUT = frozenset(
    re.findall(
        r"\S+",
        "alt-text array code disp-formula disp-formula-group fn fn-group graphic inline-graphic label long-desc media object-id "
        "permissions ref-list related-article related-object sec-meta supplementary-material table-wrap-foot tex-math",
    )
)
_LETTER = re.compile(r"[^\W\d_]")
# A dropped citation or footnote mark is a NUL until the punctuation around it is gone.
_IN_BRACKETS = re.compile(r"[\[(][ ,;–—-]*\0[ ,;–—\0-]*[\])]")
_ROW_OF_MARKS = re.compile(r"\0(?: ?[,;–—-]? ?\0)+")
_BETWEEN_MARKS = re.compile(r"[\s\d]*[,;–—-][\s\d,;–—-]*")
_CC_NAME = re.compile(
    r"(?:creative\s+commons|\bcc)[\s-]+(?:(?:by|attribution)\b(?P<terms>(?:[\s,/-]+(?:nc|nd|sa|non[\s-]?commercial|no[\s-]?deriv\w*"
    r"|share[\s-]?alike)\b)*)|(?P<zero>zero|cc0))(?:\s+(?:\w+\s+){0,2}?(?P<version>\d\.\d))?",
    re.I,
)
_CC_TERMS = {"NC": ("nc", "noncom"), "ND": ("nd", "noderiv"), "SA": ("sa", "sharealike")}


class JatsOptions(Recipe):
    """What to read from articles."""

    parts: tuple[Literal["title", "abstract", "body", "back"], ...] = Field(("title", "abstract", "body"), min_length=1)
    """Parts of an article to read. back: appendices, acknowledgements, notes and other sections after the body."""
    captions: bool = False
    """Read the captions of figures and tables."""
    tables: bool = False
    """Read tables, one line per row."""
    citations: bool = False
    """Keep numbered citations such as `[12]`. Citations by name and year are always kept: sentences need them."""
    split: Literal["article", "section"] = "article"
    """What one document is: an article, or its abstract and each of its top-level sections."""
    languages: tuple[str, ...] = ()
    """Two-letter codes of the languages to read, from the article and its translations; by default the article's own."""


@dataclass(frozen=True)
class _Version:
    """An article in one language."""

    language: str | None
    title: Any
    abstracts: tuple[Any, ...]
    article: Any = None
    """The element with body, back matter, and figures and tables outside the body; None if there is only an abstract."""


class JatsReader:
    """Reads JATS articles, also from tar archives if the reader is named. The id is the PMC id, else PMID, DOI or the publisher's id."""

    endings = (".nxml",)
    options = JatsOptions
    roots = ("article", "pmc-articleset")

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FileRange]:
        return [FileRange(file, 0, file.size)]

    def read(self, file_range: FileRange, source: CorpusSource) -> Iterator[Reading]:
        options = cast(JatsOptions, source.options)
        release = release_date(file_range.file.path.name)
        for record in _articles(file_range.file.path):
            if isinstance(record, BadRecord):
                yield record
                continue
            key, pmc = _ids(record.element)
            revision = None if pmc is None else Revision(pmc, release)
            found: list[Reading] = list(_documents(record, key, revision, options))
            yield from found or [LeftOut(record.row, "jats.languages", key)]
            if revision and not found:
                yield Withdrawn(record.row, revision)  # an earlier revision would be out of date


def _articles(path: Path) -> Iterator[XmlRecord | BadRecord]:
    if not path.name.lower().endswith(_TARS):
        yield from xml_records(read_blocks(path), "article")
        return
    row = 0
    try:
        with reading(path), open_bytes(path) as handle, tarfile.open(fileobj=handle, mode="r|*") as archive:
            for member in archive:
                archive.members.clear()  # type: ignore[attr-defined]  # the list would only grow
                if not member.isreg() or not member.name.lower().endswith((".nxml", ".xml")):
                    continue
                for record in xml_records(_blocks(archive.extractfile(member)), "article"):
                    row += 1
                    if isinstance(record, BadRecord):
                        record = replace(record, reason=f"{record.reason}, of the file {member.name}")
                    yield replace(record, row=row)
    except (tarfile.TarError, InputError):
        yield BadRecord(None, None, f"the archive is damaged or truncated after {row} articles")


def _blocks(file: Any) -> Iterator[bytes]:
    while block := file.read(1 << 18):
        yield block


def _documents(
    record: XmlRecord, key: str | None, revision: Revision | None, options: JatsOptions
) -> Iterator[RawDocument]:
    article = record.element
    versions = list(_versions(article))
    wanted = [version for version in versions if version.language in options.languages]
    date, licence = _date(article), _licence(article)
    for version in wanted if options.languages else versions[:1]:
        title = _line(version.title, options)
        facts = known(title=title, language=version.language, date=date, licence=licence)
        own = key if version is versions[0] or key is None else f"{key}-{version.language}"
        sections = list(_sections(version, options))
        if options.split == "article":
            lines = [line for heading, inner in sections for line in ((heading, *inner) if heading else inner)]
            opening = [title] if title and "title" in options.parts else []
            yield RawDocument(record.row, "\n".join([*opening, *lines]), own, facts, revision)
            continue
        for number, (heading, inner) in enumerate(sections, 1):
            part = None if own is None else f"{own}.{number}"
            yield RawDocument(record.row, "\n".join(inner), part, facts | known(section=heading), revision)


def _versions(article: Any) -> Iterator[_Version]:
    """Yield the article, its translations, and its title and abstract in languages that have only these."""
    meta = article.find("front/article-meta")
    stated = _language(article) or "en"  # the default in the DTD of JATS
    yield _Version(stated, _find(meta, "title-group/article-title"), _abstracts(meta, "abstract"), article)
    abstracts: dict[str | None, tuple[Any, ...]] = {}
    for abstract in _abstracts(meta, "trans-abstract"):
        language = _language(abstract)
        abstracts[language] = (*abstracts.get(language, ()), abstract)
    done = {stated, None}
    for inner in article.iterfind("sub-article"):
        language = _language(inner)
        if inner.get("article-type") != "translation" or language in done:
            continue
        done.add(language)
        front = inner.find("front-stub")
        front = inner.find("front/article-meta") if front is None else front
        title = _find(front, "title-group/article-title")
        title = _translated_title(meta, language) if title is None else title
        yield _Version(language, title, _abstracts(front, "abstract") or abstracts.get(language, ()), inner)
    for language in abstracts:
        if language not in done:
            yield _Version(language, _translated_title(meta, language), abstracts[language])


def _translated_title(meta: Any, language: str | None) -> Any:
    """Find a title in another language: in a group, or alone in older versions of JATS."""
    for place in ("trans-title-group", "trans-title"):
        for found in meta.iterfind(f"title-group/{place}"):
            if _language(found) == language:
                return found.find("trans-title") if place == "trans-title-group" else found
    return None


def _abstracts(meta: Any, tag: str) -> tuple[Any, ...]:
    """Return the abstracts proper, without graphical abstracts, teasers and editors' summaries."""
    found = () if meta is None else meta.iterfind(tag)
    return tuple(abstract for abstract in found if abstract.get("abstract-type") in (None, "", "abstract", "summary"))


def _sections(version: _Version, options: JatsOptions) -> Iterator[tuple[str, list[str]]]:
    """Yield heading and lines of the abstract and of each top-level section."""
    if "abstract" in options.parts:
        for abstract in version.abstracts:
            yield from _section(abstract, abstract, options)
    if "body" in options.parts:
        loose: list[Any] = []
        for child in _children(version.article, "body", "floats-group", "floats-wrap"):
            if child.tag != "sec":
                loose.append(child)
                continue
            yield from _section(None, loose, options)
            loose = []
            yield from _section(child, child, options)
        yield from _section(None, loose, options)
    if "back" in options.parts:
        for child in _children(version.article, "back"):
            for section in child if child.tag == "app-group" else (child,):
                if section.tag not in _LEFT_OUT:
                    yield from _section(section, section, options)


def _children(article: Any, *paths: str) -> Iterator[Any]:
    for path in () if article is None else paths:
        for element in article.iterfind(path):
            yield from element


def _section(owner: Any, children: Iterable[Any], options: JatsOptions) -> Iterator[tuple[str, list[str]]]:
    if owner is not None and owner.get("sec-type") == "supplementary-material":
        return
    text = _Lines(options)
    for child in children:
        if child.tag != "title":
            text.walk(child)
    text.end_line()
    if text.lines:
        yield _line(_find(owner, "title"), options), text.lines


def _line(element: Any, options: JatsOptions) -> str:
    """Return a title or a table cell on one line; "" for None."""
    if element is None:
        return ""
    text = _Lines(options)
    text.walk(element)
    text.end_line()
    return " ".join(text.lines)


class _Lines:
    """Turns elements into lines: paragraphs, headings, list items, captions and rows of tables."""

    def __init__(self, options: JatsOptions) -> None:
        self.lines: list[str] = []
        self._pieces: list[str] = []
        self._options = options
        self._left_out = (
            _LEFT_OUT | (set() if options.captions else {"caption"}) | (set() if options.tables else {"table"})
        )

    def walk(self, element: Any) -> None:
        """Add an element, without its tail."""
        tag = element.tag
        if tag in self._left_out:
            return
        if tag == "math":
            self._pieces.append(xml.formula(element))
            return
        if tag in ("xref", "sup") and self._is_mark(element):
            self._pieces.append("\0")
            return
        if tag == "tr":
            self.end_line()
            cells = [_line(cell, self._options) for cell in element]
            self.lines += [" | ".join(cells)] if any(cells) else []
            return
        if tag in _LINES:
            self.end_line()
        elif tag == "break":
            self._pieces.append(" ")
        elif tag == "sup" and is_power(self._pieces, element.text):
            self._pieces.append("^")
        if element.text:
            self._pieces.append(element.text)
        for inner in element:
            self.walk(inner)
            if inner.tail:
                self._pieces.append(inner.tail)
        if tag in _LINES:
            self.end_line()

    def end_line(self) -> None:
        line = " ".join("".join(self._pieces).split())
        self._pieces.clear()
        if "\0" in line:
            line = _without_marks(line)
        if line:
            self.lines.append(line)

    def _is_mark(self, element: Any) -> bool:
        """Whether an element is a numbered citation, a footnote mark, or a superscript of such marks."""
        text = "".join(element.itertext())
        if element.tag == "xref":
            if element.get("ref-type") in ("fn", "table-fn"):
                return len(text.strip()) <= 3
            return element.get("ref-type") == "bibr" and not self._options.citations and not _LETTER.search(text)
        if not len(element):  # a comma or dash between two citations, or a citation without a link
            return self._after_mark() and _BETWEEN_MARKS.fullmatch(text) is not None
        own = "".join([element.text or "", *(inner.tail or "" for inner in element)])
        return not _LETTER.search(own) and all(inner.tag == "xref" and self._is_mark(inner) for inner in element)

    def _after_mark(self) -> bool:
        return next((piece for piece in reversed(self._pieces) if not piece.isspace()), "").endswith("\0")


def _without_marks(line: str) -> str:
    """Remove the marks from a line, and the brackets, commas and spaces that belonged to them."""
    text, *others = _ROW_OF_MARKS.sub("\0", _IN_BRACKETS.sub("\0", line)).split("\0")
    for after in others:
        if text.endswith(("[", "(")):
            after = after.lstrip(" ,;")
        elif after.lstrip().startswith(("]", ")")):
            text, after = text.rstrip(" ,;"), after.lstrip()
        text = text.removesuffix(" ") + after
    return text


def _find(element: Any, path: str) -> Any:
    return None if element is None else element.find(path)


def _language(element: Any) -> str | None:
    return element.get(_LANG, "").partition("-")[0].strip().lower() or None


def _ids(article: Any) -> tuple[str | None, int | None]:
    """Return the id of an article, and its number in PMC."""
    ids = {item.get("pub-id-type"): inner_text(item) for item in article.iterfind("front/article-meta/article-id")}
    pmc = (ids.get("pmc") or ids.get("pmcid") or "").upper().removeprefix("PMC")
    if pmc.isdecimal():
        return f"PMC{pmc}", int(pmc)
    return next((ids[kind] for kind in ("pmid", "doi", "publisher-id", None) if ids.get(kind)), None), None


def _date(article: Any) -> str | None:
    """Return the publication date, the electronic one if there are several."""
    kinds = ("epub", "pub", "ppub", "collection")
    dates = []
    for date in article.iterfind("front/article-meta/pub-date"):
        kind = date.get("pub-type") or date.get("date-type") or ""
        found = iso_date(*(date.findtext(name) for name in ("year", "month", "day")))
        if found:
            dates.append((kinds.index(kind) if kind in kinds else len(kinds), found))
    return min(dates)[1] if dates else None


def _licence(article: Any) -> str | None:
    """Return the licence by its Creative Commons name, or else its link or type as the article states it."""
    meta = article.find("front/article-meta")
    places = [] if meta is None else [*meta.iter("copyright-statement", "license")]
    licences = [place for place in places if place.tag == "license"]
    links = " ".join(item.get(_HREF, "") for place in places for item in place.iter())
    stated = " ".join([*(licence.get("license-type", "") for licence in licences), *map(inner_text, places)])
    if linked := creative_commons(links) or creative_commons(stated):
        return linked
    if names := [*_CC_NAME.finditer(stated)]:
        # One licence, perhaps named more than once: combine the restrictions of all names.
        words = re.sub(r"[\s-]", "", " ".join(name["terms"] or "" for name in names)).lower()
        limits = [term for term, spellings in _CC_TERMS.items() if any(spelling in words for spelling in spellings)]
        kind = "CC0" if all(name["zero"] for name in names) else "-".join(["CC BY", *limits])
        version = next((name["version"] for name in names if name["version"]), None)
        return f"{kind} {version}" if version else kind
    own = [licence.get(_HREF) or licence.get("license-type") for licence in licences]
    return next((name.strip() for name in own if name and name.strip()), None)


READER = JatsReader()
