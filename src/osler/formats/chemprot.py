"""ChemProt: tables of abstracts, entities, relations and the gold standard.

Offsets are half-open over title + one character + abstract. Relations come from `*_relations*.tsv`: the label is the
group (CPR:4), the fine type and whether it is evaluated ("Y") are the attributes "type" and "evaluated"; a pair may
carry several. Without that table the gold standard, which has only the evaluated groups, is read.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from osler.formats.base import Loss, Once, Problems, strict_unless
from osler.formats.draft import Draft
from osler.formats.output import (
    ATTRIBUTES,
    DISCONTINUOUS,
    META,
    RELATIONS,
    RENAMED,
    TITLE_LENGTH,
    flattened,
    joined,
    only_documents,
    output_file,
    parted,
    unheld,
)
from osler.formats.sources import Source, SourceTree, opened
from osler.text.document import Document, Record

_ABSTRACTS = re.compile(r"(.*)_abstracts(_gs)?\.tsv", re.IGNORECASE)
_Rows = dict[str, list[tuple[int, list[str]]]]
_EVALUATED = {"CPR:3", "CPR:4", "CPR:5", "CPR:6", "CPR:9"}


@dataclass(frozen=True)
class ChemProt:
    """The official tables of one or more splits."""

    name: str = "chemprot"
    description: str = "ChemProt tables: abstracts, entities, relations, gold standard"
    suffixes: tuple[str, ...] = ("_abstracts.tsv", "_abstracts_gs.tsv")
    layout: Literal["file", "folder"] = "folder"

    def detect(self, source: Source) -> bool:
        """Whether there is a table of abstracts with its entities."""
        with opened(source) as tree:
            return bool(tree.names("*_abstracts*.tsv")) and bool(tree.names("*_entities*.tsv"))

    def read(self, source: Source, *, problems: Problems | None = None) -> Iterator[Document]:
        """Yield the abstracts in file order."""
        found = strict_unless(problems)
        once = Once(found)
        with opened(source) as tree:
            for name in tree.names("*_abstracts*.tsv"):
                match = _ABSTRACTS.fullmatch(name)
                if match is None:
                    continue
                prefix, end = match[1], match[2] or ""
                tables = [f"{prefix}_{table}{end}.tsv" for table in ("entities", "relations")]
                gold = f"{prefix}_gold_standard.tsv"
                related = tables[1] if tables[1] in tree else gold
                if tables[0] not in tree:
                    found.report("missing-annotation", "the table of entities is missing", where=tree.where(name))
                entities, relations = _rows(tree, tables[0], found, 6), _rows(tree, related, found, 4)
                for number, line in tree.lines(name):
                    cells = line.split("\t")
                    if len(cells) != 3:
                        found.report("malformed-line", "not pmid, title and abstract", where=tree.where(name, number))
                        continue
                    once.check(cells[0], tree.where(name, number))
                    yield _document(
                        cells, entities.pop(cells[0], []), relations.pop(cells[0], []), found, tree, tables[0], related
                    )
                for table, left in ((tables[0], entities), (related, relations)):
                    for rows in left.values():
                        place = tree.where(table, rows[0][0])
                        found.report("missing-text", "a row belongs to no abstract", where=place)

    def write(self, records: Iterable[Record], path: Path) -> Loss:
        """Write the four tables of one split, named after the folder."""
        losses: Counter[str] = Counter()
        with ExitStack() as stack:
            names = ("abstracts", "entities", "relations", "gold_standard")
            streams = [stack.enter_context(output_file(path / f"{path.name}_{name}.tsv")) for name in names]
            for record in records:
                if (document := only_documents(record, losses)) is None:
                    continue
                for stream, rows in zip(streams, _tables(document, losses), strict=True):
                    for row in rows:
                        stream.write(("\t".join(flattened(c, "\t\n\r", losses) for c in row) + "\n").encode())
        return Loss(+losses)


def _rows(tree: SourceTree, name: str, problems: Problems, width: int) -> _Rows:
    """The rows of a table by document; it is small beside the texts and in any order."""
    rows: _Rows = defaultdict(list)
    for number, line in tree.lines(name) if name in tree else ():
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) >= width:
            rows[cells[0]].append((number, cells))
        elif line.strip():
            problems.report("malformed-line", f"fewer than {width} columns", where=tree.where(name, number))
    return rows


def _document(
    cells: list[str],
    entities: list[tuple[int, list[str]]],
    relations: list[tuple[int, list[str]]],
    problems: Problems,
    tree: SourceTree,
    entity_table: str,
    relation_table: str,
) -> Document:
    pmid, title, abstract = cells
    text, meta = joined(title, abstract)
    table = entity_table
    draft = Draft(pmid, text, problems, lambda line: tree.where(table, line))
    for number, (_, name, label, start, end, shown, *_) in entities:
        if not (start.isdigit() and end.isdigit()):
            problems.report("malformed-line", "the offsets are no numbers", where=draft.where(number))
            continue
        draft.span(((int(start), int(end)),), label, span_id=name, expected=shown, line=number)
    table = relation_table
    for number, row in relations:
        head, tail = (argument.rpartition(":")[2] for argument in row[-2:])
        more = {"evaluated": row[2], "type": row[3]} if len(row) == 6 else {"evaluated": "Y"}
        draft.relation(row[1], head, tail, attributes=more, line=number)
    return draft.document(meta=meta)


def _tables(document: Document, losses: Counter[str]) -> tuple[list[list[str]], ...]:
    losses.update(unheld(document, {"spans", DISCONTINUOUS, RELATIONS, ATTRIBUTES, META}))
    losses[META] += len(document.meta.keys() - {TITLE_LENGTH})
    name = document.id
    text, title, abstract = parted(document, losses)
    abstracts = [[name, title, abstract]]
    entities: list[list[str]] = []
    ids: dict[str, str] = {}
    for number, span in enumerate(document.spans, 1):
        losses[ATTRIBUTES] += len(span.attributes)
        if span.discontinuous:
            losses[DISCONTINUOUS] += 1
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


FORMAT = ChemProt()
