"""Plain text: a document a file, a line, or a block between blank lines."""

from __future__ import annotations

from collections.abc import Iterator

from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import FilePart, InputFile, RawDocument
from osler.stages.corpus.inputs import cut_lines, decode, lines, read_whole


class TextReader:
    """Reads `.txt` files."""

    endings = (".txt", ".text")

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FilePart]:
        """Only files with a document a line can be cut."""
        return cut_lines(file, size) if source.unit == "line" else [FilePart(file, 0, file.size)]

    def read(self, piece: FilePart, source: CorpusSource) -> Iterator[RawDocument]:
        """The documents, with their first line as their row; a file that is one document gives its name as id."""
        path = piece.file.path
        if source.unit == "file":
            yield RawDocument(1, decode(read_whole(path), source.encoding, path=path, row=1), piece.file.name)
            return
        decoded = ((row, decode(line, source.encoding, path=path, row=row)) for row, line in lines(piece))
        if source.unit == "line":
            yield from (RawDocument(row, text) for row, text in decoded)
        else:
            yield from _blocks(decoded)


def _blocks(rows: Iterator[tuple[int, str]]) -> Iterator[RawDocument]:
    block: list[str] = []
    first = 0
    for row, text in rows:
        if text.strip():
            first = first if block else row
            block.append(text)
        elif block:
            yield RawDocument(first, "\n".join(block))
            block = []
    if block:
        yield RawDocument(first, "\n".join(block))


READER = TextReader()
