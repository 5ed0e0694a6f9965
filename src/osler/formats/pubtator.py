"""PubTator: title and abstract lines, mentions by offset, relations between concepts.

The text is the title, one space and the abstract, and offsets count over it; meta keeps the length of the title as
`title_length`. A mention's concept ids are the attribute "concept" as written (several joined by | or +, -1 for none),
the parts of a composite mention the attribute "parts".

A relation line (`CID`) joins concepts, not mentions. It is read as one relation between the first mention of each
concept, with the concepts in the attributes "head" and "tail". The writer uses those attributes or, for relations from
other formats, the concepts of the two mentions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from osler.formats.base import SourceReading, StandOffFormat
from osler.formats.draft import Draft
from osler.formats.output import (
    ATTRIBUTES,
    RELATIONS,
    RENAMED,
    SPANS,
    DocumentNames,
    documents,
    flattened,
    output_file,
    renumbered,
)
from osler.formats.sources import SourceTree
from osler.formats.titles import TITLE_LENGTH, join_title, split_title
from osler.text.document import Document, Record, Relation

_TEXT = re.compile(r"([^|\t]*)\|([ta])\|(.*)", re.DOTALL)
_Block = list[tuple[int, str]]


@dataclass(frozen=True)
class PubTator(StandOffFormat):
    """One or more PubTator files."""

    def _detect(self, tree: SourceTree) -> bool:
        heads = (tree.head(name, 1) for name in self._files(tree)[:20])
        return any(head and _TEXT.fullmatch(head[0]) for head in heads)

    def _files(self, tree: SourceTree) -> list[str]:
        return self._named(tree) or tree.names("*.txt") or list(tree)

    def _read(self, reading: SourceReading) -> Iterator[Document]:
        for name in self._files(reading.tree):
            for block in _blocks(reading.tree, name):
                document = _document(reading, name, block)
                if document is not None:
                    reading.check_new(document.id, name, block[0][0])
                    yield document

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        """Write one file. It holds no ids of mentions and relations, so ids that a reader will renumber are counted."""
        names = DocumentNames(losses)
        with output_file(path) as stream:
            for document in documents(records, losses, holds={SPANS, ATTRIBUTES, RELATIONS}, meta={TITLE_LENGTH}):
                name = names.name(document.id, re.sub(r"[|\s]+", "_", document.id) or "_")
                stream.write("".join(f"{line}\n" for line in _lines(document, name, losses)).encode() + b"\n")


def _blocks(tree: SourceTree, name: str) -> Iterator[_Block]:
    block: _Block = []
    for number, line in tree.lines(name):
        if line.strip():
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _document(reading: SourceReading, name: str, block: _Block) -> Document | None:
    texts: dict[str, str] = {}
    pmid = ""
    for _, line in block[:2]:
        match = _TEXT.fullmatch(line)
        if match and match[2] not in texts and (not texts or match[1] == pmid):
            pmid, texts[match[2]] = match[1], match[3]
    if "t" not in texts:
        reading.report("missing-text", "a block has no title line", name, block[0][0])
        return None
    text, meta = join_title(texts["t"], texts.get("a", ""))
    draft = Draft(reading, pmid, text, name)
    relations: list[tuple[int, list[str]]] = []
    for number, line in block[len(texts) :]:
        columns = line.split("\t")
        if columns[0].strip() != pmid or len(columns) < 4:
            draft.report("malformed-line", "not a mention or relation of this document", number)
        elif not columns[1].strip().isdigit():
            relations.append((number, columns))
        elif len(columns) < 5:
            draft.report("malformed-line", "a mention needs start, end, text and type", number)
        elif (offsets := draft.numbers(columns[1:3], number)) is not None:
            named = zip(("concept", "parts"), columns[5:7], strict=False)
            attributes = {key: value.strip() for key, value in named if value.strip()}
            edges = ((offsets[0], offsets[1]),)
            label = columns[4].strip()
            draft.span(edges, label, expected=columns[3], attributes=attributes, line=number)
    first: dict[str, str] = {}  # concept to its first mention
    for span in draft.spans.values():
        for concept in re.split(r"[|+]", span.attributes.get("concept", "")):
            first.setdefault(concept.strip(), span.id)
    for number, columns in relations:
        label, head, tail = (column.strip() for column in columns[1:4])
        if head in first and tail in first:
            draft.relation(label, first[head], first[tail], attributes={"head": head, "tail": tail}, line=number)
        else:
            draft.dangling(number)
    return draft.document(meta=meta)


def _lines(document: Document, name: str, losses: Counter[str]) -> Iterator[str]:
    text, title, abstract = split_title(document, losses)
    yield f"{name}|t|{title}"
    yield f"{name}|a|{abstract}"
    written: dict[str, str] = {}
    related: list[Relation] = []
    losses[RENAMED] += renumbered(span for span in document.spans if not span.discontinuous)
    for span in document.spans:
        concept, parts = (span.attributes.get(key, "") for key in ("concept", "parts"))
        losses[ATTRIBUTES] += len(span.attributes.keys() - {"concept", "parts"})
        if span.discontinuous:
            continue
        mention = text[span.start : span.end]
        columns = [name, str(span.start), str(span.end), mention, _cell(span.label, losses)]
        columns += [_cell(concept or "-1", losses)] * bool(concept or parts) + [_cell(parts, losses)] * bool(parts)
        yield "\t".join(columns)
        written[span.id] = re.split(r"[|+]", concept)[0]
    for relation in document.relations:
        head = tail = ""
        if relation.head in written and relation.tail in written:
            head = relation.attributes.get("head", written[relation.head])
            tail = relation.attributes.get("tail", written[relation.tail])
        if not head or not tail:
            losses["relations between mentions without concepts"] += 1
            continue
        losses[ATTRIBUTES] += len(relation.attributes.keys() - {"head", "tail"})
        related.append(relation)
        yield "\t".join((name, _cell(relation.label, losses), _cell(head, losses), _cell(tail, losses)))
    losses[RENAMED] += renumbered(related, "R")


def _cell(value: str, losses: Counter[str]) -> str:
    return flattened(value, "\t\n\r", losses).strip()


FORMAT = PubTator(
    "pubtator",
    "PubTator: pmid|t|title, pmid|a|abstract, tab-separated mentions and relations",
    (".pubtator", ".pubtator.txt", "_corpus.txt"),
)
