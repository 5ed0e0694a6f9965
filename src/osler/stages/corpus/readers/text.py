"""Plain text: one document per file, per line, or per block between blank lines."""

from __future__ import annotations

from collections.abc import Iterator

from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import FileRange, InputFile, RawDocument
from osler.stages.corpus.inputs import cut_lines, decode, lines, read_bytes


class TextReader:
    """Reads `.txt` files. A document's row is its first line; a file that is one document has its name as id."""

    endings = (".txt", ".text")
    options = None

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FileRange]:
        return cut_lines(file, size) if source.unit == "line" else [FileRange(file, 0, file.size)]

    def read(self, file_range: FileRange, source: CorpusSource) -> Iterator[RawDocument]:
        path = file_range.file.path
        if source.unit == "file":
            yield RawDocument(1, decode(read_bytes(path), source.encoding, path=path, row=1), file_range.file.name)
            return
        block: list[str] = []
        first = 0
        for row, line in lines(file_range):
            text = decode(line, source.encoding, path=path, row=row)
            if source.unit == "line":
                yield RawDocument(row, text)
            elif text.strip():
                first = first if block else row
                block.append(text)
            elif block:
                yield RawDocument(first, "\n".join(block))
                block = []
        if block:
            yield RawDocument(first, "\n".join(block))


READER = TextReader()
