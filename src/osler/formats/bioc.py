"""BioC XML: collections of documents, passages (or sentences) and annotations with document offsets.

The text of a document is its passages at their offsets, blanks between them. In some files (the BC5CDR release) the
offset of a passage was counted on escaped XML and is too large, while the annotations count passages joined by one
character: of the two readings, the one that more mentions agree with is taken.

The infon "type" of an annotation is its label, other infons are attributes. A relation with two nodes is a relation
between these annotations. One without nodes joins concepts (BC5CDR: infons `Chemical` and `Disease`): it becomes a
relation between the first mention of each, with the concepts in the attributes "head" and "tail", as in PubTator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from osler.core.errors import InputError
from osler.formats import xml
from osler.formats.base import Loss, Once, Problems, strict_unless
from osler.formats.draft import Draft, same_text
from osler.formats.output import ATTRIBUTES, DISCONTINUOUS, META, RELATIONS, only_documents, output_file, unheld
from osler.formats.sources import Source, opened
from osler.text.document import Document, Record, Relation, Span

_LABEL_KEYS = ("relation", "type", "relation type")


@dataclass(frozen=True)
class BioC:
    """BioC XML collections."""

    name: str = "bioc"
    description: str = "BioC XML: passages, annotations, relations"
    suffixes: tuple[str, ...] = (".bioc.xml", ".bioc", ".xml")
    layout: Literal["file", "folder"] = "file"

    def detect(self, source: Source) -> bool:
        """Whether the first XML file is a BioC collection."""
        with opened(source) as tree:
            names = tree.names(*(f"*{suffix}" for suffix in self.suffixes))
            return any("<collection>" in line for name in names[:1] for line in tree.head(name, 5))

    def read(self, source: Source, *, problems: Problems | None = None) -> Iterator[Document]:
        """Yield the documents in file order."""
        found = strict_unless(problems)
        once = Once(found)
        with opened(source) as tree:
            for name in tree.names(*(f"*{suffix}" for suffix in self.suffixes)) or list(tree):
                place = tree.where(name)
                with tree.open_binary(name) as stream:
                    for element in xml.stream(stream, "document", place):
                        once.check(xml.element_text(element, "id"), f"{place}:{element.sourceline}")
                        yield _document(element, place, found)

    def write(self, records: Iterable[Record], path: Path) -> Loss:
        """Write one collection."""
        losses: Counter[str] = Counter()
        with output_file(path) as stream:
            head = "<collection>\n<source>osler</source>\n<date></date>\n<key></key>\n"
            stream.write(f"<?xml version='1.0' encoding='UTF-8'?>\n{head}".encode())
            for record in records:
                if (document := only_documents(record, losses)) is not None:
                    stream.write("".join(f"{line}\n" for line in _lines(document, losses)).encode())
            stream.write(b"</collection>\n")
        return Loss(+losses)


def _infons(element: Any) -> dict[str, str]:
    return {str(infon.get("key")): infon.text or "" for infon in element.findall("infon")}


def _pieces(document: Any, where: str) -> Iterator[tuple[int, str]]:
    """The offset and text of every passage, or of its sentences where they hold the text."""
    for passage in document.findall("passage"):
        for part in [passage] if passage.find("text") is not None else passage.findall("sentence"):
            offset = xml.element_text(part, "offset").strip()
            if not offset.isdigit():
                raise InputError("a passage has no offset", where=f"{where}:{part.sourceline}", fix="Check the file")
            yield int(offset), xml.element_text(part, "text")


def _texts(pieces: list[tuple[int, str]]) -> list[str]:
    """The possible readings of the passages as one text: at their offsets, and joined by one character."""
    joined = " ".join(text for _, text in pieces)
    placed = ""
    for offset, text in pieces:
        if offset < len(placed):
            return [joined]
        placed = placed.ljust(offset) + text
    return [placed] if placed == joined else [placed, joined]


def _document(element: Any, where: str, problems: Problems) -> Document:
    annotations = []
    for annotation in element.iter("annotation"):
        edges = [(place.get("offset", ""), place.get("length", "")) for place in annotation.findall("location")]
        if not edges or not all(cell.isdigit() for edge in edges for cell in edge):
            place = f"{where}:{annotation.sourceline}"
            problems.report("malformed-line", "an annotation has no offset and length", where=place)
            continue
        annotations.append((annotation, [(int(o), int(o) + int(n)) for o, n in edges]))

    def agreeing(text: str) -> int:
        shown = ((" ".join(text[a:b] for a, b in edges), xml.element_text(item, "text")) for item, edges in annotations)
        return sum(same_text(found, expected) for found, expected in shown)

    text = max(_texts(list(_pieces(element, where))), key=agreeing)
    name = xml.element_text(element, "id")
    draft = Draft(name, text, problems, lambda line: f"{where}:{line}" if line else where)
    for annotation, edges in annotations:
        infons = _infons(annotation)
        label = infons.pop("type", "")
        shown = xml.element_text(annotation, "text") if annotation.find("text") is not None else None
        line = annotation.sourceline
        draft.span(edges, label, span_id=annotation.get("id", ""), expected=shown, attributes=infons, line=line)
    first: dict[str, str] = {}
    for span in draft.spans.values():
        for value in span.attributes.values():
            for concept in value.split("|"):
                first.setdefault(concept, span.id)
    for relation in element.iter("relation"):
        _relation(draft, relation, first)
    passages = element.findall("passage")
    title = len(xml.element_text(passages[0], "text")) if len(passages) == 2 else 0
    meta = {key: value for key, value in _infons(element).items() if value}
    return draft.document(meta=meta | ({"title_length": str(title)} if title else {}))


def _relation(draft: Draft, element: Any, first: dict[str, str]) -> None:
    infons, nodes = _infons(element), element.findall("node")
    label = next((infons.pop(key) for key in _LABEL_KEYS if key in infons), "")
    name, line = element.get("id", ""), element.sourceline
    if len(nodes) == 2:
        roles = [node.get("role", "") for node in nodes]
        if any(roles):
            infons["roles"] = " ".join(roles)
        draft.relation(
            label, *(node.get("refid", "") for node in nodes), relation_id=name, attributes=infons, line=line
        )
    elif not nodes and len(infons) >= 2:
        head, tail = list(infons.values())[:2]
        if head not in first or tail not in first:
            return draft.dangling(line)
        concepts = {"head": head, "tail": tail}
        draft.relation(label, first[head], first[tail], relation_id=name, attributes=concepts, line=line)
    else:
        draft.problems.report("malformed-line", "a relation does not join two annotations", where=draft.where(line))
    return None


def _infon_lines(pairs: Iterable[tuple[str, str]], losses: Counter[str]) -> Iterator[str]:
    for key, value in pairs:
        yield f'<infon key="{_held(key, losses)}">{_held(value, losses)}</infon>'


def _held(text: str, losses: Counter[str]) -> str:
    return xml.escape(xml.holdable(text, losses))


def _lines(document: Document, losses: Counter[str]) -> Iterator[str]:
    losses.update(unheld(document, {"spans", DISCONTINUOUS, RELATIONS, ATTRIBUTES, META}))
    yield from ("<document>", f"<id>{_held(document.id, losses)}</id>")
    yield from _infon_lines(((k, v) for k, v in document.meta.items() if k != "title_length"), losses)
    known = document.meta.get("title_length", "")
    title = int(known) if known.isdigit() and document.text[int(known) : int(known) + 1] == " " else 0
    parts = (
        [("title", 0, title), ("abstract", title + 1, len(document.text))]
        if title
        else [("text", 0, len(document.text))]
    )
    for kind, start, end in parts:
        yield from ("<passage>", f'<infon key="type">{kind}</infon>', f"<offset>{start}</offset>")
        yield f"<text>{_held(document.text[start:end], losses)}</text>"
        for span in document.spans:
            if start <= span.start < end or (span.start < start and kind == "abstract" and span.start >= title):
                yield from _annotation(span, document.text, losses)
        yield "</passage>"
    for relation in document.relations:
        yield f'<relation id="{_held(relation.id, losses)}">' if relation.id else "<relation>"
        yield from _infon_lines([("relation", relation.label)], losses)
        yield from _arguments(relation, document, losses)
        yield "</relation>"
    yield "</document>"


def _annotation(span: Span, text: str, losses: Counter[str]) -> Iterator[str]:
    yield f'<annotation id="{_held(span.id, losses)}">'
    losses[ATTRIBUTES] += "type" in span.attributes
    others = ((key, value) for key, value in span.attributes.items() if key != "type")
    yield from _infon_lines([("type", span.label), *others], losses)
    yield from (f'<location offset="{start}" length="{end - start}" />' for start, end in span.fragments)
    yield f"<text>{_held(span.text_in(text), losses)}</text></annotation>"


def _arguments(relation: Relation, document: Document, losses: Counter[str]) -> Iterator[str]:
    attributes = dict(relation.attributes)
    if {"head", "tail"} <= attributes.keys():
        kinds = [document.span(relation.head).label, document.span(relation.tail).label]
        if kinds[0] == kinds[1]:
            kinds = ["head", "tail"]
        yield from _infon_lines(zip(kinds, (attributes.pop("head"), attributes.pop("tail")), strict=True), losses)
        losses[ATTRIBUTES] += len(attributes)
        return
    roles = (attributes.pop("roles", "") + " ").split(" ")
    losses[ATTRIBUTES] += sum(key in _LABEL_KEYS for key in attributes)
    yield from _infon_lines(((k, v) for k, v in attributes.items() if k not in _LABEL_KEYS), losses)
    for argument, role in zip((relation.head, relation.tail), roles, strict=False):
        yield f'<node refid="{_held(argument, losses)}" role="{_held(role, losses)}" />'


FORMAT = BioC()
