"""Rows of CSV and TSV files.

Quoted cells may hold line breaks, so a large file is cut only where a row begins: an even number of quotes precedes it, and the next
rows can be read. After a row that cannot be read, reading resumes at the next line that looks like a row.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from itertools import islice
from typing import Any

from pydantic import Field

from osler.core.config import Recipe
from osler.core.errors import InputError
from osler.stages.corpus.documents import BadRecord, FileRange, InputFile
from osler.stages.corpus.inputs import damaged_after, encoding_fix, ranges_from
from osler.stages.corpus.opening import open_bytes, reading

_DELIMITERS = ",;\t|"
_BOM = b"\xef\xbb\xbf"
_BLOCK = 1 << 20
_LONGEST_ROW = 16 << 20
"""Maximum bytes of a row; a longer one has an unclosed quote."""
_ROWS_TO_TRY, _LINES_TO_TRY = 3, 10_000
_NAMING = "Give the names in the source: text_field, id_field, facts; options.columns if the file has no row of names"
_QUOTING = "Double the quotes inside quoted cells, or set options.quote or options.escape"
_DECODING = "Convert the file to UTF-8, or give the source's encoding: often latin-1 or cp1252"


class TableOptions(Recipe):
    """The format of a table."""

    delimiter: str | None = Field(None, pattern="^.$")
    """Character between cells; by default the most frequent of comma, semicolon, tab and bar in the first line."""
    quote: str = Field('"', max_length=1)
    """Character around cells that hold delimiters or line breaks, doubled inside them; empty if cells are never quoted."""
    escape: str | None = Field(None, pattern="^.$")
    """Character that escapes a quote inside a cell, such as a backslash, if quotes are not doubled."""
    columns: tuple[str, ...] = ()
    """Names of the columns, for files without a header row."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row, and the line and byte where it begins. Undecodable bytes are surrogates in its cells."""

    line: int
    byte: int | None
    cells: list[str]

    def undecodable(self, columns: Sequence[int]) -> BadRecord | None:
        """Return the record to report if one of these cells has undecodable bytes."""
        if all(map(_is_text, [self.cells[column] for column in columns])):
            return None
        return BadRecord(self.line, self.byte, "a cell is not valid in the encoding of the source", _DECODING)


class TableFile:
    """One file as rows of cells. Every row has a cell for each column."""

    def __init__(self, file: InputFile, encoding: str, options: TableOptions) -> None:
        self._file, self._encoding = file, encoding
        # Line breaks and quotes cannot be found in the bytes of UTF-16, so its lines are converted to UTF-8.
        self._bytewise = '"\n'.encode(encoding) == b'"\n'
        self._codec = encoding if self._bytewise else "utf-8"
        self._quote = options.quote.encode(self._codec, "replace")
        self._can_cut = self._bytewise and not (options.quote and options.escape) and options.quote.isascii()
        with reading(file.path), open_bytes(file.path) as handle:
            self._start = len(_BOM) if self._bytewise and handle.read(len(_BOM)) == _BOM else 0
        with self._lines(self._start) as lines:
            first = next(lines, b"")
        if b"\0" in first:
            where, fix = f"{file.path}:1", encoding_fix(first)
            raise InputError(f"the first line is not valid {encoding}", where=where, fix=fix)
        head = first.decode(self._codec, "surrogateescape")
        self._style = {
            "delimiter": options.delimiter or max(_DELIMITERS, key=head.count),
            "quotechar": options.quote or None,
            "quoting": csv.QUOTE_MINIMAL if options.quote else csv.QUOTE_NONE,
            "escapechar": options.escape,
            "doublequote": options.escape is None,
        }
        self._first_line = 1
        self.columns: Sequence[str] = options.columns or self._read_names()

    def position(self, name: str) -> int:
        """Return the index of a required column."""
        if name not in self.columns:
            problem = f"none of its {len(self.columns)} columns is called {name!r}"
            raise InputError(problem, where=self._file.path, fix=_NAMING)
        return self.columns.index(name)

    def ranges(self, lines: list[FileRange]) -> list[FileRange]:
        """Move the starts of line ranges to where rows begin. The file stays one range if row starts cannot be found."""
        file = self._file
        if not self._can_cut:
            return [FileRange(file, 0, file.size)]
        if not self._quote or len(lines) == 1:
            return lines
        starts = [(0, 1)]
        quotes = 0
        with reading(file.path), open(file.path, "rb") as handle:
            for proposed in lines[1:]:
                if proposed.start <= handle.tell():  # the row before it is longer than a range
                    continue
                while handle.tell() < proposed.start:
                    quotes += handle.read(min(_BLOCK, proposed.start - handle.tell())).count(self._quote)
                for line in range(proposed.first_row, proposed.first_row + _LINES_TO_TRY):
                    if quotes % 2 == 0 and self._rows_begin(FileRange(file, handle.tell(), file.size, line)):
                        starts.append((handle.tell(), line))
                        break
                    quotes += handle.readline().count(self._quote)
                else:
                    break  # an earlier quote has no partner: the rest of the file is one range
        return ranges_from(file, starts)

    def rows(self, file_range: FileRange) -> Iterator[TableRow | BadRecord]:
        """Yield the rows that begin in a range, without blank lines and the header row."""
        line, byte = file_range.first_row, file_range.start or self._start
        # A compressed file is one range, and its size says nothing about the text in it.
        stop = file_range.stop if file_range.stop < self._file.size else None
        lost: BadRecord | None = None
        start_of_rows = b""
        with damaged_after(self._file.path, lambda: line), self._lines(byte) as lines:
            if not file_range.start:
                names = list(islice(lines, self._first_line - 1))
                line, byte = line + len(names), byte + sum(map(len, names))
            parser = _RowParser(lines, self._codec, self._style)
            while stop is None or byte < stop:
                cells = parser.read()
                if not parser.used:
                    break
                place = byte if self._bytewise else None
                if cells is None or (lost and not self._looks_like_a_row(cells, parser.used, start_of_rows)):
                    lost = lost or BadRecord(line, place, "a quote in this row is missing or misplaced", _QUOTING)
                    parser.back_to_second_line()
                else:
                    if lost:
                        yield lost
                        lost = None
                    if len(cells) == len(self.columns):
                        start_of_rows = _start(parser.used)
                        yield TableRow(line, place, cells)
                    elif cells:
                        problem = f"the row has {len(cells)} cells, not {len(self.columns)}"
                        yield BadRecord(line, place, problem, _QUOTING)
                line += sum(used.endswith(b"\n") for used in parser.used)
                byte += sum(map(len, parser.used))
        if lost:
            yield lost

    def _looks_like_a_row(self, cells: list[str], used: list[bytes], start_of_rows: bytes) -> bool:
        """Whether reading can resume here. A line of a broken cell may have the right number of delimiters by chance."""
        paired = not self._quote or sum(line.count(self._quote) for line in used) % 2 == 0
        return paired and len(cells) == len(self.columns) and start_of_rows in (b"", _start(used))

    def _rows_begin(self, file_range: FileRange) -> bool:
        return all(isinstance(row, TableRow) for row in islice(self.rows(file_range), _ROWS_TO_TRY))

    def _read_names(self) -> list[str]:
        with self._lines(self._start) as lines:
            parser = _RowParser(lines, self._codec, self._style)
            cells = parser.read()
        if cells is None:
            fix = "Check the first line, options.delimiter and options.quote"
            raise InputError("the names of the columns cannot be read", where=f"{self._file.path}:1", fix=fix)
        self._first_line = len(parser.used) + 1
        return [name.strip() for name in cells]

    @contextmanager
    def _lines(self, start: int) -> Iterator[Iterator[bytes]]:
        """Open the lines from a byte on, converted to UTF-8 if their own encoding is not bytewise."""
        with reading(self._file.path), open_bytes(self._file.path) as handle:
            if self._bytewise:
                if start > len(_BOM):
                    handle.seek(start)
                else:
                    handle.read(start)  # not every compressed file can seek
                yield iter(partial(handle.readline, _LONGEST_ROW + 1), b"")  # a longer line comes in pieces
                return
            try:
                text = TextIOWrapper(handle, encoding=self._encoding, newline="\n")
                yield (line.encode() for line in text)
            except UnicodeDecodeError:
                raise InputError(f"not valid {self._encoding}", where=self._file.path, fix=_DECODING) from None


class _RowParser:
    """Parses lines into rows, keeping the lines of the current row in case it cannot be read."""

    def __init__(self, lines: Iterator[bytes], codec: str, style: dict[str, Any]) -> None:
        # The csv module's own limit, 128 KiB, is shorter than a long discharge summary.
        csv.field_size_limit(1 << 30)
        self._lines, self._codec, self._style = lines, codec, style
        self._again: deque[bytes] = deque()
        self.used: list[bytes] = []
        self._rows = self._start()

    def read(self) -> list[str] | None:
        """Cells of the next row, or None if it cannot be read. At the end of the file, `used` is empty."""
        self.used.clear()
        try:
            return next(self._rows, [])
        except csv.Error:
            return None

    def back_to_second_line(self) -> None:
        """Skip the first line of the current row and resume at its second."""
        self._again.extendleft(reversed(self.used[1:]))
        del self.used[1:]
        self._rows = self._start()

    def _start(self) -> Any:
        return csv.reader(self._feed(), strict=True, **self._style)

    def _feed(self) -> Iterator[str]:
        used, again, lines, codec = self.used, self._again, self._lines, self._codec
        size = 0
        while line := again.popleft() if again else next(lines, b""):
            size = size + len(line) if used else len(line)
            used.append(line)
            if size > _LONGEST_ROW:
                raise csv.Error
            yield line.decode(codec, "surrogateescape")


def _is_text(cell: str) -> bool:
    if cell.isascii():
        return True
    try:
        cell.encode()
    except UnicodeEncodeError:
        return False
    return True


def _start(lines: list[bytes]) -> bytes:
    """Return the first byte of a row, with all digits as 0."""
    first = lines[0][:1]
    return b"0" if first.isdigit() else first
