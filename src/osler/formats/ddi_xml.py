"""DDI corpus XML: sentences with drug names and their interactions.

A document's text is its sentences, joined by a line break; meta keeps their offsets ("start end;start end…") because a
sentence may itself contain line breaks. `charOffset` counts within the sentence, and its end is inclusive. Pairs with
`ddi="true"` are relations; the others are all remaining pairs of a sentence, which the writer lists again. A true
pair without a type is a defect and is read as "untyped".
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osler.formats import xml
from osler.formats.base import Format, SourceReading
from osler.formats.draft import Draft
from osler.formats.output import DISCONTINUOUS, RELATIONS, RENAMED, SPANS, OutputFolder, documents, spans_by_line
from osler.formats.sources import SourceTree
from osler.text.document import Document, Fragment, Record, Span, parse_fragments
from osler.text.words import line_ranges

# Sentences with more entities list only interacting pairs. Those of the corpus have fewer.
_LISTED = 200
_OFFSETS = re.compile(r"\d+-\d+(;\d+-\d+)*")


@dataclass(frozen=True)
class DdiXml(Format):
    """One XML file per document. The writer cuts a text without sentence offsets at its line breaks."""

    def _detect(self, tree: SourceTree) -> bool:
        head = tree.first_lines("*.xml", 3)
        return any("<document id=" in line for line in head) and any("<sentence id=" in line for line in head)

    def _read(self, reading: SourceReading) -> Iterator[Document]:
        for name in reading.tree.names("*.xml"):
            root = xml.parse(reading.tree.read_bytes(name), reading.tree.where(name))
            reading.check_new(root.get("id", ""), name)
            yield _document(reading, name, root)

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        folder = OutputFolder(path, losses)
        for document in documents(records, losses, holds={SPANS, DISCONTINUOUS, RELATIONS}, meta={"sentences"}):
            stem = folder.stem(document.id)
            folder.write(f"{stem}.xml", "".join(f"{line}\n" for line in _lines(document, losses)))


def _document(reading: SourceReading, file: str, root: Any) -> Document:
    sentences = root.findall("sentence")
    texts = [sentence.get("text", "") for sentence in sentences]
    draft = Draft(reading, root.get("id", ""), "\n".join(texts), file)
    places: list[Fragment] = []
    start = 0
    for sentence, text in zip(sentences, texts, strict=True):
        for entity in sentence.findall("entity"):
            offsets = entity.get("charOffset", "")
            if not _OFFSETS.fullmatch(offsets):
                draft.report("malformed-line", "charOffset is not start-end", entity.sourceline)
                continue
            numbers = draft.numbers(re.split("[-;]", offsets), entity.sourceline)
            if numbers is None:
                continue
            fragments = ((a + start, b + start + 1) for a, b in zip(numbers[::2], numbers[1::2], strict=True))
            name, label, shown = (entity.get(key, "") for key in ("id", "type", "text"))
            draft.span(fragments, label, span_id=name, expected=shown, line=entity.sourceline)
        for pair in sentence.findall("pair"):
            if pair.get("ddi") == "true":
                name, kind, head, tail = (pair.get(key, "") for key in ("id", "type", "e1", "e2"))
                draft.relation(kind, head, tail, relation_id=name, line=pair.sourceline)
        places.append((start, start + len(text)))
        start += len(text) + 1
    return draft.document(meta={"sentences": ";".join(f"{a} {b}" for a, b in places)} if places else {})


def _sentences(document: Document) -> list[Fragment]:
    """Return the offsets of the sentences: those in meta if they fit the text, else the lines."""
    places = parse_fragments(document.meta.get("sentences", ""))
    if places and "\n".join(document.text[a:b] for a, b in places) == document.text:
        return places
    return line_ranges(document.text)


def _lines(document: Document, losses: Counter[str]) -> Iterator[str]:
    links: dict[tuple[str, str], list[str]] = {}
    for relation in document.relations:
        links.setdefault((relation.head, relation.tail), []).append(relation.label)
    placed = related = 0
    yield from ('<?xml version="1.0" encoding="UTF-8"?>', f'<document id="{xml.encoded(document.id, losses)}">')
    places = _sentences(document)
    spans = spans_by_line(document.spans, places)
    for number, ((start, end), inside) in enumerate(zip(places, spans, strict=True)):
        name = f"{document.id}.s{number}"
        text = document.text[start:end]
        yield f'    <sentence id="{xml.encoded(name, losses)}" text="{_attribute(text, losses)}">'
        placed += len(inside)
        names = [f"{name}.e{index}" for index in range(len(inside))]
        for span, entity in zip(inside, names, strict=True):
            losses[RENAMED] += span.id not in ("", entity)
            offsets = ";".join(f"{a - start}-{b - start - 1}" for a, b in span.fragments)
            shown = _attribute(span.text_in(document.text), Counter())
            label = xml.encoded(span.label, losses)
            yield f'        <entity id="{xml.encoded(entity, losses)}" charOffset="{offsets}" type="{label}" text="{shown}"/>'
        for line, true in _pairs(name, list(zip(inside, names, strict=True)), links, losses):
            related += true
            yield line
        yield "    </sentence>"
    losses["spans across sentences"] += len(document.spans) - placed
    losses["relations across sentences"] += len(document.relations) - related
    yield "</document>"


def _pairs(
    sentence: str, entities: list[tuple[Span, str]], links: dict[tuple[str, str], list[str]], losses: Counter[str]
) -> Iterator[tuple[str, bool]]:
    """Yield every pair of the sentence and whether it interacts; a pair with two relations is listed twice.

    For a very long sentence, only interacting pairs are listed: all others would fill the disk without adding information.
    """
    numbers = itertools.count()
    chosen: Iterable[tuple[tuple[Span, str], tuple[Span, str]]] = itertools.combinations(entities, 2)
    if len(entities) > _LISTED:
        order = {span.id: index for index, (span, _) in enumerate(entities)}
        linked = {tuple(sorted((order[a], order[b]))) for a, b in links if a != b and a in order and b in order}
        chosen = ((entities[a], entities[b]) for a, b in sorted(linked))
    for (first, name1), (second, name2) in chosen:
        forward, backward = links.get((first.id, second.id), []), links.get((second.id, first.id), [])
        joined: list[tuple[str, str, str | None]] = [(name1, name2, kind) for kind in forward]
        joined += [(name2, name1, kind) for kind in backward]
        for e1, e2, kind in joined or [(name1, name2, None)]:
            number, interacts = next(numbers), str(kind is not None).lower()
            cells = [("id", f"{sentence}.p{number}"), ("e1", e1), ("e2", e2), ("ddi", interacts)]
            cells += [("type", kind)] if kind not in (None, "untyped") else []
            shown = " ".join(f'{key}="{xml.encoded(cell or "", losses)}"' for key, cell in cells)
            yield f"        <pair {shown}/>", kind is not None


def _attribute(text: str, losses: Counter[str]) -> str:
    """Encode sentence text. Carriage returns are written as references, so that they survive in attributes."""
    return "&#13;".join(xml.encoded(part, losses) for part in text.split("\r"))


FORMAT = DdiXml("ddi_xml", "DDI corpus XML: drug names and drug-drug interactions", (".xml",), "folder")
