"""Web crawls: WARC files and HTML pages, with the main text of each page. Pages that are not HTML are left out.

trafilatura is the default because it keeps lists and tables, which hold the symptoms and doses on health pages. resiliparse is ten
times faster, but it drops lists and runs table cells together.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from html import unescape
from pathlib import Path
from typing import IO, Literal

from osler.core.config import Recipe
from osler.core.extras import require
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import (
    BadRecord,
    FileRange,
    InputFile,
    LeftOut,
    RawDocument,
    creative_commons,
    known,
)
from osler.stages.corpus.inputs import read_bytes
from osler.stages.corpus.opening import open_bytes, reading

_PAGE_ENDINGS = (".html", ".htm", ".xhtml")
_PAGE_TYPES = ("text/html", "application/xhtml+xml")
_LONGEST_PAGE = 32 << 20
_LONGEST_LINE = 1 << 16
_BLOCK = 1 << 20
_HEAD = 1 << 14
_CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([A-Za-z0-9._:-]+)""", re.IGNORECASE)
_WEB_CODECS = re.compile(r"ascii|utf-8|(cp|iso8859-|koi8-|gb|big5|shift_jis|euc_|mac-)\w+")
_TITLE = re.compile(r"<title[^>]*>([^<]{0,500})", re.IGNORECASE)
_LANGUAGE = re.compile(r"""<html[^>]*\slang\s*=\s*["']?([a-z]{2,3})\b""", re.IGNORECASE)
_LICENCE = re.compile(r"""<(?:a|link)\b[^<>]*\brel\s*=\s*["']?license\b[^<>]*>""", re.IGNORECASE)
_TABLE_RULE = re.compile(r"^\|[-| ]+\|\s*\n", re.MULTILINE)
_TABLE_ROW = re.compile(r"^\| (.*?) ?\|\s*$", re.MULTILINE)
_DAMAGED = "Copy or download the file again"


class WebOptions(Recipe):
    """How text is extracted from a page."""

    extractor: Literal["trafilatura", "resiliparse"] = "trafilatura"
    """Package that extracts the main text of a page. trafilatura keeps lists and tables; resiliparse is faster."""


@dataclass(frozen=True, slots=True)
class _Record:
    """A record of a WARC file. `content` is None if it is too long to be a page."""

    number: int
    byte: int
    headers: Mapping[str, str]
    content: bytes | None


class WarcReader:
    """Reads WARC files and HTML pages (extra `web`). The id is the address of a page, or its file name.

    Answers other than 200 and content other than HTML are left out. The row of a page is the number of its record.
    """

    endings = (".warc", *_PAGE_ENDINGS)
    options = WebOptions

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FileRange]:
        return [FileRange(file, 0, file.size)]

    def read(self, file_range: FileRange, source: CorpusSource) -> Iterator[RawDocument | BadRecord | LeftOut]:
        assert isinstance(source.options, WebOptions)
        extractor = source.options.extractor
        path = file_range.file.path
        if _is_page(path):
            yield _page(1, None, read_bytes(path), {}, file_range.file.name, {}, extractor)
            return
        with reading(path), open_bytes(path) as handle:
            for record in _records(handle):
                if isinstance(record, BadRecord):
                    yield record
                elif record.headers.get("warc-type") in ("response", "resource", "conversion"):
                    yield _document(record, extractor)


def _is_page(path: Path) -> bool:
    """Whether a file, compressed or not, is one HTML page."""
    endings = [path.suffix.lower(), Path(path.stem).suffix.lower()]
    return endings[0] in _PAGE_ENDINGS or (endings[0] != ".warc" and endings[1] in _PAGE_ENDINGS)


def _document(record: _Record, extractor: str) -> RawDocument | BadRecord | LeftOut:
    """Read the page in a record. Common Crawl stores the text of a page, without markup, as a conversion record."""
    row, headers = record.number, record.headers
    address = headers.get("warc-target-uri", "").strip("<>") or None
    facts = {"date": headers["warc-date"][:10]} if headers.get("warc-date") else {}
    if record.content is None:
        return LeftOut(row, "warc.size", address)
    content = record.content
    if headers["warc-type"] == "response":
        head, blank, content = content.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").splitlines() or [""]
        if not blank or not status.startswith("HTTP/"):
            return BadRecord(row, record.byte, "the record holds no HTTP response", _DAMAGED)
        headers = _headers(lines)
        if status.split()[1:2] != ["200"]:
            return LeftOut(row, "warc.status", address)
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if record.headers["warc-type"] == "conversion" and kind == "text/plain":
        return RawDocument(row, content.decode("utf-8", "replace"), address, facts)
    if kind not in _PAGE_TYPES:
        return LeftOut(row, "warc.type", address)
    return _page(row, record.byte, content, headers, address, facts, extractor)


def _page(
    row: int,
    byte: int | None,
    content: bytes,
    headers: Mapping[str, str],
    name: str | None,
    facts: Mapping[str, str],
    extractor: str,
) -> RawDocument | BadRecord:
    try:
        html = _decode(_decoded_body(content, headers), headers)
    except (ValueError, zlib.error):
        return BadRecord(row, byte, "the page is damaged, or its compression is not supported", _DAMAGED)
    head = html[:_HEAD]
    title, language = _TITLE.search(head), _LANGUAGE.search(head)
    licence = _LICENCE.search(html) if "creativecommons.org" in html else None
    found = known(
        title=" ".join(unescape(title[1]).split()) if title else None,
        language=language[1].lower() if language else None,
        licence=creative_commons(licence[0]) if licence else None,
    )
    extract = _extractor(extractor)
    try:
        text = extract(html)
    except Exception:  # web pages break HTML parsers in ways that no list of errors covers
        return BadRecord(row, byte, "the page cannot be read as HTML")
    return RawDocument(row, text, name, {**facts, **found})


@cache
def _extractor(name: str) -> Callable[[str], str]:
    if name == "resiliparse":
        plain_text = require("resiliparse.extract.html2text", "web").extract_plain_text
        return lambda html: plain_text(html, main_content=True, links=False, list_bullets=False)
    extract = require("trafilatura", "web").extract

    def main_text(html: str) -> str:
        # Tables come as Markdown: keep the cells, drop the rules.
        return _TABLE_ROW.sub(r"\1", _TABLE_RULE.sub("", extract(html, include_comments=False) or ""))

    return main_text


def _records(handle: IO[bytes]) -> Iterator[_Record | BadRecord]:
    byte = number = 0
    lost = False
    while line := handle.readline(_LONGEST_LINE):
        start = byte
        byte += len(line)
        if not line.startswith(b"WARC/"):
            if line.strip() and not lost:
                number += 1
                lost = True
                yield BadRecord(number, start, "no WARC record begins here", _DAMAGED)
            continue
        lost = False
        number += 1
        lines = []
        while (line := handle.readline(_LONGEST_LINE)).strip():
            byte += len(line)
            lines.append(line.decode("utf-8", "replace"))
        byte += len(line)
        headers = _headers(lines)
        length = headers.get("content-length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 18):
            lost = True
            yield BadRecord(number, start, "the record does not state its length", _DAMAGED)
            continue
        size = int(length)
        content = handle.read(size) if size <= _LONGEST_PAGE else None
        read = len(content) if content is not None else _skip(handle, size)
        byte += read
        if read < size:
            yield BadRecord(number, start, "the file ends inside this record", _DAMAGED)
            return
        yield _Record(number, start, headers, content)


def _skip(handle: IO[bytes], size: int) -> int:
    left = size
    while left and (block := handle.read(min(_BLOCK, left))):
        left -= len(block)
    return size - left


def _headers(lines: list[str]) -> dict[str, str]:
    """Parse headers by lower-case name. Of repeated ones, the first counts."""
    found: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        found.setdefault(name.strip().lower(), value.strip())
    return found


def _decoded_body(body: bytes, headers: Mapping[str, str]) -> bytes:
    """Undo chunking and compression of an HTTP response. Some crawlers undo both but keep the headers."""
    if "chunked" in headers.get("transfer-encoding", "").lower() and _CHUNK.match(body):
        body = _joined_chunks(body)
    coding = headers.get("content-encoding", "").lower()
    if coding in ("gzip", "x-gzip", "deflate"):
        try:
            unpacked = zlib.decompressobj(wbits=47).decompress(body, _LONGEST_PAGE)
        except zlib.error:
            if b"<" not in body[:_HEAD]:
                raise
        else:
            body = unpacked
    elif coding == "br" and b"<" not in body[:_HEAD]:
        raise ValueError
    return body


_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[^\r\n]{0,200}\r\n")


def _joined_chunks(body: bytes) -> bytes:
    parts = []
    position = 0
    while match := _CHUNK.match(body, position):
        size = int(match[1], 16)
        if not size:
            break
        parts.append(body[match.end() : match.end() + size])
        position = match.end() + size + 2
    return b"".join(parts)


def _decode(data: bytes, headers: Mapping[str, str]) -> str:
    """Decode as browsers do: byte order mark, HTTP header, meta tag; Latin-1 means Windows-1252."""
    for mark, codec in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if data.startswith(mark):
            return data.removeprefix(mark).decode(codec, "replace")
    stated = _CHARSET.search(headers.get("content-type", "").encode()) or _CHARSET.search(data[:_HEAD])
    if stated and (named := _codec(stated[1].decode())):
        return data.decode(named, "replace")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _codec(label: str) -> str | None:
    try:
        name = codecs.lookup(label).name
    except LookupError:
        return None
    # Python has more codecs than the web, some of which are no character sets at all.
    known = _WEB_CODECS.fullmatch(name)
    return ("cp1252" if name in ("ascii", "iso8859-1") else name) if known else None


READER = WarcReader()
