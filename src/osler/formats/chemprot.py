"""ChemProt: tables of abstracts, entities, relations and the gold standard.

Offsets are half-open over title + one character + abstract. Relations come from `*_relations*.tsv`: the label is the
group (CPR:4), the fine type and whether it is evaluated ("Y") are the attributes "type" and "evaluated". A pair may have
several. Without that table, the gold standard is read, which has only the evaluated groups.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from osler.formats.base import SourceReading, StandOffFormat
from osler.formats.draft import Draft, Rows, report_leftovers, rows_by_document
from osler.formats.output import ATTRIBUTES, RELATIONS, RENAMED, SPANS, documents, output_file, tab_line
from osler.formats.sources import SourceTree
from osler.formats.titles import TITLE_LENGTH, join_title, split_title
from osler.text.document import Document, Record

_ABSTRACTS = re.compile(r"(.*)_abstracts(_gs)?\.tsv", re.IGNORECASE)
_EVALUATED = {"CPR:3", "CPR:4", "CPR:5", "CPR:6", "CPR:9"}


@dataclass(frozen=True)
class ChemProt(StandOffFormat):
    """The official tables of one or more splits. The writer makes one split, named after the folder."""

    def _detect(self, tree: SourceTree) -> bool:
        return bool(tree.names("*_abstracts*.tsv")) and bool(tree.names("*_entities*.tsv"))

    def _read(self, reading: SourceReading) -> Iterator[Document]:
        tree = reading.tree
        for name in tree.names("*_abstracts*.tsv"):
            match = _ABSTRACTS.fullmatch(name)
            if match is None:
                continue
            prefix, end = match[1], match[2] or ""
            entity_table, relation_table = (f"{prefix}_{table}{end}.tsv" for table in ("entities", "relations"))
            if relation_table not in tree:
                relation_table = f"{prefix}_gold_standard.tsv"
            if entity_table not in tree:
                reading.report("missing-annotation", "the table of entities is missing", name)
            entities, relations = _rows(reading, entity_table, 6), _rows(reading, relation_table, 4)
            for number, line in tree.lines(name):
                cells = line.split("\t")
                if len(cells) != 3:
                    reading.report("malformed-line", "not pmid, title and abstract", name, number)
                    continue
                pmid, title, abstract = cells
                reading.check_new(pmid, name, number)
                text, meta = join_title(title, abstract)
                draft = Draft(reading, pmid, text, entity_table)
                for row_number, (_, span_id, label, first, last, shown, *_) in entities.pop(pmid, []):
                    offsets = draft.numbers((first, last), row_number)
                    if offsets is not None:
                        edge = (offsets[0], offsets[1])
                        draft.span((edge,), label, span_id=span_id, expected=shown, line=row_number)
                draft.file = relation_table
                for row_number, row in relations.pop(pmid, []):
                    head, tail = (argument.rpartition(":")[2] for argument in row[-2:])
                    more = {"evaluated": row[2], "type": row[3]} if len(row) == 6 else {"evaluated": "Y"}
                    draft.relation(row[1], head, tail, attributes=more, line=row_number)
                yield draft.document(meta=meta)
            report_leftovers(reading, entity_table, entities, "a row belongs to no abstract")
            report_leftovers(reading, relation_table, relations, "a row belongs to no abstract")

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        with ExitStack() as stack:
            names = ("abstracts", "entities", "relations", "gold_standard")
            streams = [stack.enter_context(output_file(path / f"{path.name}_{name}.tsv")) for name in names]
            for document in documents(records, losses, holds={SPANS, RELATIONS, ATTRIBUTES}, meta={TITLE_LENGTH}):
                for stream, rows in zip(streams, _tables(document, losses), strict=True):
                    for row in rows:
                        stream.write(tab_line(row, losses).encode())


def _rows(reading: SourceReading, table: str, width: int) -> Rows[list[str]]:
    """Return the rows of a table by document. They come in any order; the table is small compared with the texts."""

    def parse(line: str) -> tuple[str, list[str]] | None:
        cells = [cell.strip() for cell in line.split("\t")]
        return (cells[0], cells) if len(cells) >= width else None

    return rows_by_document(reading, table, parse, f"fewer than {width} columns") if table in reading.tree else {}


def _tables(document: Document, losses: Counter[str]) -> tuple[list[list[str]], ...]:
    name = document.id
    text, title, abstract = split_title(document, losses)
    abstracts = [[name, title, abstract]]
    entities: list[list[str]] = []
    ids: dict[str, str] = {}
    for number, span in enumerate(document.spans, 1):
        losses[ATTRIBUTES] += len(span.attributes)
        if span.discontinuous:
            continue
        ids[span.id] = span.id if re.fullmatch(r"T\d+", span.id) else f"T{number}"
        losses[RENAMED] += ids[span.id] != span.id
        entities.append([name, ids[span.id], span.label, str(span.start), str(span.end), text[span.start : span.end]])
    relations: list[list[str]] = []
    gold: list[list[str]] = []
    for relation in document.relations:
        if relation.head not in ids or relation.tail not in ids:
            losses[RELATIONS] += 1
            continue
        losses[ATTRIBUTES] += len(relation.attributes.keys() - {"evaluated", "type"})
        arguments = [f"Arg1:{ids[relation.head]}", f"Arg2:{ids[relation.tail]}"]
        evaluated = relation.attributes.get("evaluated", "Y" if relation.label in _EVALUATED else "N")
        kind = relation.attributes.get("type", relation.label)
        relations.append([name, relation.label, f"{evaluated} ", kind, *arguments])
        if evaluated == "Y":
            gold.append([name, relation.label, *arguments])
    return abstracts, entities, relations, gold


FORMAT = ChemProt(
    "chemprot",
    "ChemProt tables: abstracts, entities, relations, gold standard",
    ("_abstracts.tsv", "_abstracts_gs.tsv"),
    "folder",
)
