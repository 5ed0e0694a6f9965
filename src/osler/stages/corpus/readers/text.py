"""Plain text: one document per file, per line, or per block between blank lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from osler.core.errors import InputError
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import BadRecord, FileRange, InputFile, RawDocument
from osler.stages.corpus.inputs import LONGEST, cut_lines, decode, lines, read_bytes


class TextReader:
    """Reads `.txt` files. A document's row is its first line; a file that is one document has its name as id."""

    endings = (".txt", ".text")
    options = None

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FileRange]:
        return cut_lines(file, size) if source.unit == "line" else [FileRange(file, 0, file.size)]

    def read(self, file_range: FileRange, source: CorpusSource) -> Iterator[RawDocument | BadRecord]:
        path = file_range.file.path
        if source.unit == "file":
            yield RawDocument(1, decode(read_bytes(path), source.encoding, path=path, row=1), file_range.file.name)
            return
        block: list[RawDocument | BadRecord] = []
        size = 0
        for row, line in lines(file_range):
            record = _line(line, source, path, row)
            if source.unit == "line":
                yield record
            elif isinstance(record, BadRecord) or record.text.strip():
                block.append(record)
                size += len(line)
                if size > LONGEST:
                    raise InputError(
                        f"a document of more than {LONGEST >> 20} MB",
                        where=f"{path}:{row}",
                        fix="Put blank lines between documents, or set --unit line",
                    )
            elif block:
                yield _joined(block)
                block, size = [], 0
        if block:
            yield _joined(block)


def _line(data: bytes, source: CorpusSource, path: Path, row: int) -> RawDocument | BadRecord:
    try:
        return RawDocument(row, decode(data, source.encoding, path=path, row=row))
    except InputError as error:
        return BadRecord(row, None, error.problem, error.fix)


def _joined(block: list[RawDocument | BadRecord]) -> RawDocument | BadRecord:
    """Join lines into one document, unreadable if any line is."""
    lines = [record for record in block if isinstance(record, RawDocument)]
    if len(lines) < len(block):
        return next(record for record in block if isinstance(record, BadRecord))
    return RawDocument(lines[0].row, "\n".join(line.text for line in lines))


READER = TextReader()
