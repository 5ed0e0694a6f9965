"""Read large XML files one record at a time.

Records are cut out of the bytes and parsed separately. Memory stays flat, entities are never resolved, and damage costs one record:
reading resumes at the next one. Record elements must not be nested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html.entities import html5
from pathlib import Path
from typing import Any

from osler.core.errors import InputError
from osler.formats import xml
from osler.stages.corpus.documents import BadRecord
from osler.stages.corpus.opening import open_bytes, reading

_BLOCK = 1 << 18
_LARGEST = 64 << 20
_HEAD = 1 << 16
_TAIL = 1 << 12
_NAMESPACE = re.compile(rb"""xmlns(?::[\w.-]+)?\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_DECLARATION = re.compile(rb"\s*(<\?xml\s[^>]*\?>)")
_REFERENCE = re.compile(rb"&([A-Za-z][A-Za-z0-9]*);")
_BUILT_IN = (b"amp", b"lt", b"gt", b"quot", b"apos")
_NUMBER = re.compile(r"[-\u2212\u2013]?\d+")


@dataclass(frozen=True, slots=True)
class XmlRecord:
    """A record as an element tree without namespaces. `row` counts the records of the file from 1."""

    row: int
    element: Any


def read_blocks(path: Path) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file in blocks. A damaged file raises once everything before the damage is yielded."""
    with reading(path), open_bytes(path) as handle:
        stream: Any = handle
        while block := stream.read1(_BLOCK):  # not `read`, which loses a block if the damage is inside it
            yield block


def xml_records(blocks: Iterable[bytes], *tags: str, without: Sequence[str] = ()) -> Iterator[XmlRecord | BadRecord]:
    """Yield the elements of these names in file order, and a BadRecord for each unreadable stretch.

    `without` names long, unneeded elements that occur once per record; they are not parsed.
    """
    window = _Window(blocks)
    head = _Head(window)
    if head.problem:
        yield BadRecord(None, 0, head.problem)
        return
    names = "|".join(map(re.escape, tags)).encode()
    unread = [(f"<{name}".encode(), f"</{name}>".encode()) for name in without]
    begin = re.compile(rb"<(" + names + rb")(?=[\s/>])")
    ends = {tag.encode(): re.compile(rb"</" + re.escape(tag.encode()) + rb"\s*>") for tag in tags}
    row = 0
    while (start := window.search(begin)) is not None:
        row += 1
        tag = start[1]
        window.drop(start.start())
        stop = window.end_of_record(ends[tag])
        within = f" within {_LARGEST >> 20} MB" if len(window.data) > _LARGEST else ""
        problem, line = f"the element <{tag.decode()}> does not end{within}", window.line
        if stop is not None:
            try:
                record = window.data[:stop]
                # Never cut across the beginning of another record: two halves would make one that looks valid.
                if unread and not any(record.find(b"<" + name, 1) > 0 for name in ends):
                    _shorten(record, unread)
                element = head.parse(record)
            except InputError as error:
                problem = error.problem.partition(" at column ")[0]  # it counts the prefix put before the record
                line += int((error.where or "").rpartition(":")[2] or 1) - 1
            else:
                window.drop(stop)
                yield XmlRecord(row, element)
                continue
        yield BadRecord(row, window.byte, f"{problem}, line {line}")
        # A record that was cut off has the next one inside it.
        inner = begin.search(window.data, 1, stop or len(window.data))
        window.drop(inner.start() if inner else stop or len(window.data))
    complete = head.root in tags or f"</{head.root}".encode() in window.data
    window.drop(len(window.data))
    if window.damage:
        yield BadRecord(None, window.byte, f"{window.damage}, after line {window.line}")
    elif not complete:
        yield BadRecord(None, window.byte, f"the file ends before </{head.root}>, line {window.line}")
    if not row:
        yield BadRecord(None, 0, f"there is no <{'> or <'.join(tags)}> in the file; its root element is <{head.root}>")


class _Window:
    """The part of a stream that is in memory, and its position in the file."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self.data = bytearray()
        self.byte = 0
        self.line = 1
        self.damage = ""

    def more(self) -> bool:
        """Read the next block; False at the end of the file, or where it is damaged."""
        try:
            block = next(self._blocks, b"")
        except InputError as error:
            self.damage = error.problem
            block = b""
        self.data += block
        return bool(block)

    def drop(self, size: int) -> None:
        self.byte += size
        self.line += self.data.count(b"\n", 0, size)
        del self.data[:size]

    def search(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """Find a pattern of at most _TAIL bytes, dropping what comes before."""
        while True:
            if found := pattern.search(self.data):
                return found
            self.drop(max(0, len(self.data) - _TAIL))
            if not self.more():
                return None

    def end_of_record(self, end: re.Pattern[bytes]) -> int | None:
        """Return where the element that begins here ends; None if it does not end or is too large to be a record."""
        seen = 0
        while True:
            close = self.data.find(b">")
            if close > 0 and self.data[close - 1 : close] == b"/":
                return close + 1
            if found := end.search(self.data, seen):
                return found.end()
            seen = max(0, len(self.data) - _TAIL)
            if len(self.data) > _LARGEST or not self.more():
                return None


class _Head:
    """The parts of a file's head that records need: the encoding and the namespaces."""

    def __init__(self, window: _Window) -> None:
        while len(window.data) < _HEAD and window.more():
            pass
        data = bytes(window.data[:_HEAD]).removeprefix(b"\xef\xbb\xbf")
        self.root, attributes = xml.root_tag(data)
        self.problem = "" if self.root else window.damage or "the file is not XML"
        spaces = b"".join(b" " + found[0] for found in _NAMESPACE.finditer(attributes))
        declaration = _DECLARATION.match(data)
        self._before = (declaration[1] if declaration else b"") + (b"<r" + spaces + b">" if spaces else b"")
        self._after = b"</r>" if spaces else b""

    def parse(self, record: bytearray) -> Any:
        """Parse one record; an InputError says what is wrong with it."""
        data = b"".join((self._before, _REFERENCE.sub(_resolve, record), self._after))
        element = xml.parse(data, "")
        element = element[0] if self._after else element
        spaces = {(found[1] or found[2] or b"").decode() for found in _NAMESPACE.finditer(data)}
        for inner in element.iter(*(f"{{{space}}}*" for space in spaces)) if spaces else ():
            inner.tag = inner.tag.rpartition("}")[2]
        return element


def _shorten(record: bytearray, unread: Iterable[tuple[bytes, bytes]]) -> None:
    for first, last in unread:
        start = record.find(first)
        stop = record.find(last, start)
        if 0 <= start < stop:
            lines = record.count(b"\n", start, stop)
            record[start : stop + len(last)] = b"\n" * lines  # keeps the line numbers of errors right


def _resolve(reference: re.Match[bytes]) -> bytes:
    """Replace a named character such as &nbsp;: its declaration is in a DTD, and a DTD is never loaded."""
    characters = html5.get(f"{reference[1].decode()};")
    if reference[1] in _BUILT_IN or characters is None:
        return reference[0]
    return "".join(f"&#{ord(character)};" for character in characters).encode()


def inner_text(element: Any) -> str:
    """Return the text of an element and its descendants on one line; "" for None.

    A number in superscript after a digit gets a caret: 10<sup>6</sup> is 10^6, not 106.
    """
    if element is None:
        return ""
    if not len(element):
        return " ".join((element.text or "").split())
    pieces: list[str] = []
    _collect(element, pieces)
    return " ".join("".join(pieces).split())


def _collect(element: Any, pieces: list[str]) -> None:
    if element.tag == "math":
        pieces.append(xml.formula(element))
        return
    if element.text:
        pieces.append(element.text)
    for inner in element:
        if inner.tag == "sup" and is_power(pieces, inner.text):
            pieces.append("^")
        _collect(inner, pieces)
        if inner.tail:
            pieces.append(inner.tail)


def is_power(before: list[str], superscript: str | None) -> bool:
    """Whether a superscript would run into the number before it."""
    last = before[-1][-1:] if before else ""
    return last.isdigit() and _NUMBER.fullmatch(superscript or "") is not None


def release_date(file: str) -> int:
    """Return the date in a file name as a sortable number, such as 20240618; 0 without one."""
    found = re.search(r"(?<!\d)(20\d\d)-(\d\d)-(\d\d)(?!\d)", file)
    return int("".join(found.groups())) if found else 0


def iso_date(year: str | None, month: str | None = None, day: str | None = None) -> str | None:
    """Format a date as YYYY-MM-DD, as far as it is known; None without a year. The month may be a number or an English name."""
    if not year or not re.fullmatch(r"\d{4}", year.strip()):
        return None
    name = (month or "").strip().lower()[:3]
    number = _MONTHS.index(name) + 1 if name in _MONTHS else int(name) if name.isdecimal() else 0
    if not 1 <= number <= 12:
        return year.strip()
    date = f"{year.strip()}-{number:02d}"
    digits = (day or "").strip()
    return f"{date}-{int(digits):02d}" if digits.isdecimal() and 1 <= int(digits) <= 31 else date


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
