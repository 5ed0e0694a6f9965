"""CSV and TSV tables, such as exports of hospital systems: one document per row, with text, id and facts in named columns."""

from __future__ import annotations

from collections.abc import Iterator

from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.csv_rows import TableFile, TableOptions, TableRow
from osler.stages.corpus.documents import BadRecord, FileRange, InputFile, RawDocument, joined, named_facts
from osler.stages.corpus.inputs import cut_lines


class TableReader:
    """Reads CSV and TSV files. `text_field` or `text_fields`, `id_field` and `facts` of the source name the columns.

    A document's row is the line where its row begins.
    """

    endings = (".csv", ".tsv", ".tab")
    options = TableOptions

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FileRange]:
        return _opened(file, source).ranges(cut_lines(file, size))

    def read(self, file_range: FileRange, source: CorpusSource) -> Iterator[RawDocument | BadRecord]:
        table = _opened(file_range.file, source)
        if not table.columns:  # the file is empty
            return
        texts = [table.position(name) for name in source.texts()]
        facts = {name: table.position(name) for name in source.facts.values()}
        key = table.position(source.id_field) if source.id_field in table.columns else None
        wanted = [*texts, *facts.values(), *(() if key is None else (key,))]
        for row in table.rows(file_range):
            bad = row if isinstance(row, BadRecord) else row.undecodable(wanted)
            if bad:
                yield bad
                continue
            assert isinstance(row, TableRow)
            cells = row.cells
            text = joined(cells[column] for column in texts)
            found = named_facts({name: cells[column].strip() for name, column in facts.items()}, source.facts)
            yield RawDocument(row.line, text, None if key is None else cells[key].strip() or None, found)


def _opened(file: InputFile, source: CorpusSource) -> TableFile:
    assert isinstance(source.options, TableOptions)
    return TableFile(file, source.encoding, source.options)


READER = TableReader()
