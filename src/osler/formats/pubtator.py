"""PubTator: title and abstract lines, mentions by offset, relations between concepts.

Text is title + one blank + abstract, and offsets count it; meta keeps the length of the title as `title_length`. A
mention's concept ids stand in the attribute "concept" as they are written (several joined by | or +, -1 for none),
the parts of a composite mention in "parts".

A relation line (`CID`) joins concepts, not mentions. It becomes one relation between the first mention of each
concept, with the concepts in the attributes "head" and "tail": one line, one relation. The writer takes those
attributes or, for relations from elsewhere, the concepts of the two mentions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from osler.formats.base import Loss, Once, Problems, strict_unless
from osler.formats.draft import Draft
from osler.formats.output import (
    ATTRIBUTES,
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
from osler.text.document import Document, Record, Relation

_TEXT = re.compile(r"([^|\t]*)\|([ta])\|(.*)", re.DOTALL)
_Block = list[tuple[int, str]]


@dataclass(frozen=True)
class PubTator:
    """PubTator files, one or many."""

    name: str = "pubtator"
    description: str = "PubTator: pmid|t|title, pmid|a|abstract, tab-separated mentions and relations"
    suffixes: tuple[str, ...] = (".pubtator", ".pubtator.txt", "_corpus.txt")
    layout: Literal["file", "folder"] = "file"

    def detect(self, source: Source) -> bool:
        """Whether some file begins with a title line."""
        with opened(source) as tree:
            heads = (tree.head(name, 1) for name in self._names(tree)[:20])
            return any(head and _TEXT.fullmatch(head[0]) for head in heads)

    def _names(self, tree: SourceTree) -> list[str]:
        return tree.names(*(f"*{suffix}" for suffix in self.suffixes)) or tree.names("*.txt") or list(tree)

    def read(self, source: Source, *, problems: Problems | None = None) -> Iterator[Document]:
        """Yield the documents in file order."""
        found = strict_unless(problems)
        once = Once(found)
        with opened(source) as tree:
            for name in self._names(tree):
                for block in _blocks(tree, name):
                    document = _document(block, tree, name, found)
                    if document is not None:
                        once.check(document.id, tree.where(name, block[0][0]))
                        yield document

    def write(self, records: Iterable[Record], path: Path) -> Loss:
        """Write one file."""
        losses: Counter[str] = Counter()
        with output_file(path) as stream:
            for record in records:
                if (document := only_documents(record, losses)) is not None:
                    stream.write("".join(f"{line}\n" for line in _lines(document, losses)).encode() + b"\n")
        return Loss(+losses)


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


def _document(block: _Block, tree: SourceTree, name: str, problems: Problems) -> Document | None:
    texts: dict[str, str] = {}
    pmid = ""
    for _, line in block[:2]:
        match = _TEXT.fullmatch(line)
        if match and match[2] not in texts and (not texts or match[1] == pmid):
            pmid, texts[match[2]] = match[1], match[3]
    if "t" not in texts:
        problems.report("missing-text", "a block has no title line", where=tree.where(name, block[0][0]))
        return None
    text, meta = joined(texts["t"], texts.get("a", ""))
    draft = Draft(pmid, text, problems, lambda line: tree.where(name, line))
    relations: list[tuple[int, list[str]]] = []
    for number, line in block[len(texts) :]:
        columns = line.split("\t")
        if columns[0].strip() != pmid or len(columns) < 4:
            problems.report(
                "malformed-line", "not a mention or relation of this document", where=tree.where(name, number)
            )
        elif not columns[1].strip().isdigit():
            relations.append((number, columns))
        elif len(columns) < 5 or not columns[2].strip().isdigit():
            problems.report(
                "malformed-line", "a mention needs start, end, text and type", where=tree.where(name, number)
            )
        else:
            named = zip(("concept", "parts"), columns[5:7], strict=False)
            attributes = {key: value.strip() for key, value in named if value.strip()}
            edges = ((int(columns[1]), int(columns[2])),)
            label = columns[4].strip()
            draft.span(edges, label, expected=columns[3], attributes=attributes, line=number)
    first: dict[str, str] = {}
    for span in draft.spans.values():
        for concept in re.split(r"[|+]", span.attributes.get("concept", "")):
            first.setdefault(concept.strip(), span.id)
    for number, columns in relations:
        label, head, tail = (column.strip() for column in columns[1:4])
        if head not in first or tail not in first:
            draft.dangling(number)
            continue
        draft.relation(label, first[head], first[tail], attributes={"head": head, "tail": tail}, line=number)
    return draft.document(meta=meta)


def _lines(document: Document, losses: Counter[str]) -> Iterator[str]:
    losses.update(unheld(document, {"spans", ATTRIBUTES, RELATIONS, META, "discontinuous spans"}))
    losses[META] += len(document.meta.keys() - {TITLE_LENGTH})
    name = re.sub(r"[|\s]+", "_", document.id)
    losses[RENAMED] += name != document.id
    text, title, abstract = parted(document, losses)
    yield f"{name}|t|{title}"
    yield f"{name}|a|{abstract}"
    written: dict[str, str] = {}
    for span in document.spans:
        concept, parts = (span.attributes.get(key, "") for key in ("concept", "parts"))
        losses[ATTRIBUTES] += len(span.attributes.keys() - {"concept", "parts"})
        if span.discontinuous:
            losses["discontinuous spans"] += 1
            continue
        mention = text[span.start : span.end]
        columns = [name, str(span.start), str(span.end), mention, _cell(span.label, losses)]
        columns += [_cell(concept or "-1", losses)] * bool(concept or parts) + [_cell(parts, losses)] * bool(parts)
        yield "\t".join(columns)
        written[span.id] = re.split(r"[|+]", concept)[0]
    for relation in document.relations:
        head, tail = _concepts(relation, written)
        if not head or not tail:
            losses["relations between mentions without concepts"] += 1
            continue
        losses[ATTRIBUTES] += len(relation.attributes.keys() - {"head", "tail"})
        yield "\t".join((name, _cell(relation.label, losses), _cell(head, losses), _cell(tail, losses)))


def _concepts(relation: Relation, written: dict[str, str]) -> tuple[str, str]:
    attributes = relation.attributes
    if relation.head not in written or relation.tail not in written:
        return "", ""
    return attributes.get("head", written[relation.head]), attributes.get("tail", written[relation.tail])


def _cell(value: str, losses: Counter[str]) -> str:
    return flattened(value, "\t\n\r", losses).strip()


FORMAT = PubTator()
