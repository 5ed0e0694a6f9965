"""BioC XML: collections of documents, passages (or sentences) and annotations with document offsets.

The text of a document is its passages at their offsets, with spaces between them. In some files (the BC5CDR release)
passage offsets were counted on escaped XML and are too large, while annotations count passages joined by one character.
The reader takes whichever of the two texts agrees with more mentions.

The infon "type" of an annotation is its label, other infons are attributes. A relation with two nodes joins these
annotations. A relation without nodes joins concepts (BC5CDR: infons `Chemical` and `Disease`): it is read as a relation
between the first mention of each, with the concepts in the attributes "head" and "tail", as in PubTator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osler.core.errors import InputError
from osler.core.parsing import parse_int, to_int
from osler.formats import xml
from osler.formats.base import SourceReading, StandOffFormat
from osler.formats.draft import Draft, same_text
from osler.formats.offsets import Counting, GivenMention, fitting
from osler.formats.output import ATTRIBUTES, DISCONTINUOUS, META, RELATIONS, SPANS, documents, output_file
from osler.formats.sources import SourceTree
from osler.formats.titles import TITLE_LENGTH
from osler.text.document import Document, Record, Relation, Span

# Maximum number of blanks between two passages: offsets counted on escaped XML are off by less.
_GAP = 1 << 20
_LABEL_KEYS = ("relation", "type", "relation type")


@dataclass(frozen=True)
class BioC(StandOffFormat):
    """BioC XML collections."""

    def _detect(self, tree: SourceTree) -> bool:
        return any("<collection>" in line for name in self._named(tree)[:1] for line in tree.head(name, 5))

    def _read(self, reading: SourceReading) -> Iterator[Document]:
        for name in self._files(reading.tree):
            with reading.tree.open_binary(name) as stream:
                for element in xml.stream(stream, "document", reading.tree.where(name)):
                    reading.check_new(xml.element_text(element, "id"), name, element.sourceline)
                    yield _document(reading, name, element)

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        holds = {SPANS, DISCONTINUOUS, RELATIONS, ATTRIBUTES, META}
        with output_file(path) as stream:
            head = "<collection>\n<source>osler</source>\n<date></date>\n<key></key>\n"
            stream.write(f"<?xml version='1.0' encoding='UTF-8'?>\n{head}".encode())
            for document in documents(records, losses, holds=holds):
                stream.write("".join(f"{line}\n" for line in _lines(document, losses)).encode())
            stream.write(b"</collection>\n")


def _infons(element: Any) -> dict[str, str]:
    return {str(infon.get("key")): infon.text or "" for infon in element.findall("infon")}


def _document(reading: SourceReading, file: str, element: Any) -> Document:
    annotations = []
    for annotation in element.iter("annotation"):
        places, line = annotation.findall("location"), annotation.sourceline
        if not places:
            reading.report("malformed-line", "an annotation has no location", file, line)
            continue
        cells = (place.get(key, "") for place in places for key in ("offset", "length"))
        numbers = reading.numbers(cells, file, line)
        if numbers is not None:
            edges = [(start, start + length) for start, length in zip(numbers[::2], numbers[1::2], strict=True)]
            annotations.append((annotation, edges))

    passages = list(_passages(element, reading.tree.where(file)))
    given = [GivenMention(tuple(edges), xml.element_text(item, "text"), same_text) for item, edges in annotations]
    text = _agreeing(_texts(passages), given, reading.conventions)
    draft = Draft(reading, xml.element_text(element, "id"), text, file)
    for annotation, edges in annotations:
        infons = _infons(annotation)
        label = infons.pop("type", "")
        shown = xml.element_text(annotation, "text") if annotation.find("text") is not None else None
        line = annotation.sourceline
        draft.span(edges, label, span_id=annotation.get("id", ""), expected=shown, attributes=infons, line=line)
    first: dict[str, str] = {}  # concept to its first mention
    for span in draft.spans.values():
        for value in span.attributes.values():
            for concept in value.split("|"):
                first.setdefault(concept, span.id)
    for relation in element.iter("relation"):
        _relation(draft, relation, first)
    parts = element.findall("passage")
    title = len(xml.element_text(parts[0], "text")) if len(parts) == 2 else 0
    meta = {key: value for key, value in _infons(element).items() if value}
    return draft.document(meta=meta | ({TITLE_LENGTH: str(title)} if title else {}))


def _passages(document: Any, where: str) -> Iterator[tuple[int, str]]:
    """Yield the offset and text of every passage, or of its sentences if these hold the text."""
    for passage in document.findall("passage"):
        for part in [passage] if passage.find("text") is not None else passage.findall("sentence"):
            place = f"{where}:{part.sourceline}"
            offset = xml.element_text(part, "offset").strip()
            if not offset:
                raise InputError("a passage has no offset", where=place, fix="Check the file")
            yield parse_int(offset, where=place), xml.element_text(part, "text")


def _texts(passages: list[tuple[int, str]]) -> list[str]:
    """Return the possible texts of a document: passages at their offsets, and joined by one character."""
    joined = " ".join(text for _, text in passages)
    placed = ""
    for offset, text in passages:
        # A damaged offset must not fill memory with blanks.
        if not len(placed) <= offset <= len(placed) + _GAP:
            return [joined]
        placed = placed.ljust(offset) + text
    return [placed] if placed == joined else [placed, joined]


def _agreeing(texts: list[str], mentions: list[GivenMention], conventions: tuple[str, ...]) -> str:
    """Return the text that agrees with more mentions."""

    def agreeing(text: str) -> int:
        counting = Counting(text, conventions) if conventions else None
        return sum(mention.fits(text, counting) for mention in mentions)

    chosen = max(texts, key=agreeing)
    if len(texts) > 1 and agreeing(chosen) < len(mentions):
        # Offsets that count something else agree with neither text. Use the one that a convention explains.
        explained = {text: max(fitting(text, mentions).values()) for text in texts}
        other = max(texts, key=lambda text: explained[text])
        return other if explained[other] > agreeing(chosen) else chosen
    return chosen


def _relation(draft: Draft, element: Any, first: dict[str, str]) -> None:
    infons, nodes = _infons(element), element.findall("node")
    label = next((infons.pop(key) for key in _LABEL_KEYS if key in infons), "")
    name, line = element.get("id", ""), element.sourceline
    if len(nodes) == 2:
        roles = [node.get("role", "") for node in nodes]
        if any(roles):
            infons["roles"] = " ".join(roles)
        head, tail = (node.get("refid", "") for node in nodes)
        draft.relation(label, head, tail, relation_id=name, attributes=infons, line=line)
    elif not nodes and len(infons) >= 2:
        head, tail = list(infons.values())[:2]
        if head in first and tail in first:
            concepts = {"head": head, "tail": tail}
            draft.relation(label, first[head], first[tail], relation_id=name, attributes=concepts, line=line)
        else:
            draft.dangling(line)
    else:
        draft.report("malformed-line", "a relation does not join two annotations", line)


def _infon_lines(pairs: Iterable[tuple[str, str]], losses: Counter[str]) -> Iterator[str]:
    for key, value in pairs:
        yield f'<infon key="{xml.encoded(key, losses)}">{xml.encoded(value, losses)}</infon>'


def _lines(document: Document, losses: Counter[str]) -> Iterator[str]:
    yield from ("<document>", f"<id>{xml.encoded(document.id, losses)}</id>")
    yield from _infon_lines(((k, v) for k, v in document.meta.items() if k != TITLE_LENGTH), losses)
    known = to_int(document.meta.get(TITLE_LENGTH, "")) or 0
    title = known if known > 0 and document.text[known : known + 1] == " " else 0
    parts = [("text", 0, len(document.text))]
    if title:
        parts = [("title", 0, title), ("abstract", title + 1, len(document.text))]
    for kind, start, end in parts:
        yield from ("<passage>", f'<infon key="type">{kind}</infon>', f"<offset>{start}</offset>")
        yield f"<text>{xml.encoded(document.text[start:end], losses)}</text>"
        for span in document.spans:
            if start <= span.start < end or (span.start < start and kind == "abstract" and span.start >= title):
                yield from _annotation(span, document.text, losses)
        yield "</passage>"
    labels = {span.id: span.label for span in reversed(document.spans)}
    for relation in document.relations:
        yield f'<relation id="{xml.encoded(relation.id, losses)}">' if relation.id else "<relation>"
        yield from _infon_lines([("relation", relation.label)], losses)
        yield from _arguments(relation, labels, losses)
        yield "</relation>"
    yield "</document>"


def _annotation(span: Span, text: str, losses: Counter[str]) -> Iterator[str]:
    yield f'<annotation id="{xml.encoded(span.id, losses)}">'
    losses[ATTRIBUTES] += "type" in span.attributes
    others = ((key, value) for key, value in span.attributes.items() if key != "type")
    yield from _infon_lines([("type", span.label), *others], losses)
    yield from (f'<location offset="{start}" length="{end - start}" />' for start, end in span.fragments)
    yield f"<text>{xml.encoded(span.text_in(text), losses)}</text></annotation>"


def _arguments(relation: Relation, labels: Mapping[str, str], losses: Counter[str]) -> Iterator[str]:
    attributes = dict(relation.attributes)
    if {"head", "tail"} <= attributes.keys():
        kinds = [labels[relation.head], labels[relation.tail]]
        if kinds[0] == kinds[1]:
            kinds = ["head", "tail"]
        yield from _infon_lines(zip(kinds, (attributes.pop("head"), attributes.pop("tail")), strict=True), losses)
        losses[ATTRIBUTES] += len(attributes)
        return
    roles = (attributes.pop("roles", "") + " ").split(" ")
    losses[ATTRIBUTES] += sum(key in _LABEL_KEYS for key in attributes)
    yield from _infon_lines(((k, v) for k, v in attributes.items() if k not in _LABEL_KEYS), losses)
    for argument, role in zip((relation.head, relation.tail), roles, strict=False):
        yield f'<node refid="{xml.encoded(argument, losses)}" role="{xml.encoded(role, losses)}" />'


FORMAT = BioC("bioc", "BioC XML: passages, annotations, relations", (".bioc.xml", ".bioc", ".xml"))
