"""The tables of the BSC corpora (DisTEMIST, SympTEMIST, MedProcNER, LivingNER): texts as files, all mentions in one table.

The table has the columns `filename mark label off0 off1 span`, or `filename ann_id label start_span end_span text`; offsets are
half-open and count characters of `filename.txt`. The mark, which may be missing, is the id of the mention. Further columns
(`code`, `semantic_rel`) are attributes. The table of entities and the table of codes of one corpus may be read together: a mention
in both is read once, with its codes. A text without a row has no mentions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from osler.core.errors import InputError
from osler.formats.base import SourceReading, StandOffFormat
from osler.formats.draft import Draft, file_stem, same_text
from osler.formats.output import ATTRIBUTES, SPANS, OutputFolder, distinct_ids, documents, flattened, tab_line
from osler.formats.sources import SourceTree
from osler.text.document import Document, Record

_HEADER = ("filename", "mark", "label", "off0", "off1", "span")
_NAMES = {
    "name": "filename",
    "ann_id": "mark",
    "tag": "label",
    "start_span": "off0",
    "end_span": "off1",
    "text": "span",
}
_NEEDED = {"filename", "label", "off0", "off1"}
_TEXTS = "text_files"


@dataclass(frozen=True)
class _Row:
    """One row of a table: where it is, and its cells by column."""

    table: str
    line: int
    cells: dict[str, str]


@dataclass(frozen=True)
class BscTsv(StandOffFormat):
    """Texts in a folder and tables of mentions."""

    def _detect(self, tree: SourceTree) -> bool:
        return bool(_tables(tree)) and bool(tree.names("*.txt"))

    def _read(self, reading: SourceReading) -> Iterator[Document]:
        tree = reading.tree
        rows = _rows(reading)
        texts: dict[str, list[str]] = defaultdict(list)  # by folder
        for name in tree.names("*.txt"):
            texts[name.rpartition("/")[0]].append(name)
        # A folder in which no text has a mention holds something else, such as a README.
        used = {
            folder: names
            for folder, names in texts.items()
            if folder.rpartition("/")[2] == _TEXTS or any(file_stem(name, ".txt") in rows for name in names)
        }
        for name in (name for names in (used or texts).values() for name in names):
            stem = file_stem(name, ".txt")
            reading.check_new(stem, name)
            yield _document(reading, stem, name, rows.pop(stem, []))
        for left in rows.values():
            fix = "Give the folder that holds both the table and the .txt files"
            detail = "the text of this mention is missing"
            reading.report("missing-text", detail, left[0].table, left[0].line, fix=fix)

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        """Write the texts and one table, with a column for each attribute of mentions."""
        folder = OutputFolder(path, losses)
        rows: list[tuple[Sequence[str], dict[str, str]]] = []
        extra: dict[str, None] = {}  # names of columns, in order
        for document in documents(records, losses, holds={SPANS, ATTRIBUTES}):
            stem = folder.stem(document.id)
            folder.write(f"{_TEXTS}/{stem}.txt", document.text)
            losses[ATTRIBUTES] += sum(len(relation.attributes) for relation in document.relations)
            spans = [span for span in document.spans if not span.discontinuous]
            for span, mark in zip(spans, distinct_ids(spans, "T", losses, _is_mark), strict=True):
                shown = flattened(span.text_in(document.text), "\t\n\r", Counter())
                held = {key: value for key, value in span.attributes.items() if value and _column(key)}
                losses[ATTRIBUTES] += len(span.attributes) - len(held)
                extra.update(dict.fromkeys(held))
                rows.append(((stem, mark, span.label, str(span.start), str(span.end), shown), held))
            losses[ATTRIBUTES] += sum(len(span.attributes) for span in document.spans if span.discontinuous)
        lines = [tab_line((*_HEADER, *extra), losses)]
        lines += [tab_line((*cells, *(held.get(key, "") for key in extra)), losses) for cells, held in rows]
        folder.write(f"{path.name}.tsv", "".join(lines))


def _columns(line: str) -> list[str]:
    """Return the column names in a header line, normalised."""
    given = [cell.strip().lower() for cell in line.split("\t")]
    return [_NAMES.get(cell, cell) for cell in given]


def _column(name: str) -> bool:
    """Whether an attribute of this name can be a column: it is not a standard column and reads back unchanged."""
    return bool(name) and _columns(name) == [name] and name not in _HEADER


def _tables(tree: SourceTree) -> list[str]:
    heads = ((name, tree.head(name, 1)) for name in tree.names("*.tsv"))
    return [name for name, head in heads if head and set(_columns(head[0])) >= _NEEDED]


def _rows(reading: SourceReading) -> dict[str, list[_Row]]:
    """Return the rows of all tables by document."""
    tree = reading.tree
    tables = _tables(tree)
    if not tables:
        fix = f"The first line of the .tsv file names its columns: {' '.join(_HEADER)}"
        raise InputError("no table of mentions found", where=tree.root, fix=fix)
    rows: dict[str, list[_Row]] = defaultdict(list)
    for table in tables:
        columns: list[str] = []
        for number, line in tree.lines(table):
            if not line.strip():
                continue
            if not columns:
                columns = _columns(line)
                continue
            cells = line.split("\t")
            if len(cells) != len(columns):
                reading.report("malformed-line", f"{len(cells)} columns instead of {len(columns)}", table, number)
                continue
            row = _Row(table, number, dict(zip(columns, cells, strict=True)))
            rows[row.cells["filename"].strip().removesuffix(".txt")].append(row)
    return rows


def _document(reading: SourceReading, stem: str, name: str, rows: list[_Row]) -> Document:
    draft = Draft(reading, stem, reading.tree.text(name), name)
    seen: dict[tuple[str, ...], tuple[str, str]] = {}  # a mention to its table and its id
    for row in rows:
        cells, draft.file = row.cells, row.table
        mark, label = cells.get("mark", "").strip(), cells["label"].strip()
        offsets = draft.numbers((cells["off0"], cells["off1"]), row.line)
        if offsets is None:
            continue
        attributes = {key: cell.strip() for key, cell in cells.items() if key not in _HEADER and cell.strip()}
        mention = (mark, label, *map(str, offsets))
        table, known = seen.get(mention, (row.table, ""))
        if table != row.table:
            span = draft.spans[known]
            draft.spans[known] = replace(span, attributes={**span.attributes, **attributes})
            continue
        place = ((offsets[0], offsets[1]),)
        shown = cells.get("span")
        found = draft.span(place, label, span_id=mark, expected=shown, attributes=attributes, line=row.line, same=_same)
        if found is not None:
            seen[mention] = (row.table, found.id)
    return draft.document()


def _same(found: str, expected: str) -> bool:
    """Whether two texts agree. Some tables quote cells as in CSV."""
    unquoted = expected[1:-1].replace('""', '"') if expected[:1] == expected[-1:] == '"' else expected
    return same_text(found, expected) or same_text(found, unquoted)


def _is_mark(name: str) -> bool:
    """Whether a column can hold an id unchanged."""
    return bool(name) and name == " ".join(name.split())


FORMAT = BscTsv(
    "bsc_tsv",
    "BSC corpora (DisTEMIST, SympTEMIST, MedProcNER): text_files/ and a table filename, mark, label, off0, off1, span",
    (".tsv", ".txt"),
    "folder",
)
