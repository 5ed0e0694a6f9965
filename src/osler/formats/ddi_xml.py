"""DDI corpus XML: sentences with drug names and their interactions.

A document's text is its sentences, joined by a line break; meta keeps their places ("start end;start end…"), as a
sentence may itself contain line breaks. `charOffset` counts in the sentence, its end included. Pairs with
`ddi="true"` are relations; the others are all remaining pairs of a sentence, which the writer lists again. A true
pair without a type is a defect, read as "untyped".
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from osler.formats import xml
from osler.formats.base import Loss, Once, Problems, strict_unless
from osler.formats.draft import Draft
from osler.formats.output import DISCONTINUOUS, META, RELATIONS, RENAMED, OutputFolder, only_documents, unheld
from osler.formats.sources import Source, opened
from osler.text.document import Document, Fragment, Record, Span

_OFFSETS = re.compile(r"\d+-\d+(;\d+-\d+)*")


@dataclass(frozen=True)
class DdiXml:
    """One XML file a document."""

    name: str = "ddi_xml"
    description: str = "DDI corpus XML: drug names and drug-drug interactions"
    suffixes: tuple[str, ...] = (".xml",)
    layout: Literal["file", "folder"] = "folder"

    def detect(self, source: Source) -> bool:
        """Whether the first XML file has a document with sentences."""
        with opened(source) as tree:
            head = [line for name in tree.names("*.xml")[:1] for line in tree.head(name, 3)]
            return any("<document id=" in line for line in head) and any("<sentence id=" in line for line in head)

    def read(self, source: Source, *, problems: Problems | None = None) -> Iterator[Document]:
        """Yield the documents in the order of their file names."""
        found = strict_unless(problems)
        once = Once(found)
        with opened(source) as tree:
            for name in tree.names("*.xml"):
                place = tree.where(name)
                root = xml.parse(tree.read_bytes(name), place)
                once.check(root.get("id", ""), place)
                yield _document(root, place, found)

    def write(self, records: Iterable[Record], path: Path) -> Loss:
        """Write a folder with one XML file for each document; a text without sentence places is cut at its lines."""
        losses: Counter[str] = Counter()
        folder = OutputFolder(path, losses)
        for record in records:
            if (document := only_documents(record, losses)) is not None:
                stem = folder.stem(document.id)
                folder.write(f"{stem}.xml", "".join(f"{line}\n" for line in _lines(document, losses)))
        return Loss(+losses)


def _document(root: Any, place: str, problems: Problems) -> Document:
    sentences = root.findall("sentence")
    texts = [sentence.get("text", "") for sentence in sentences]
    draft = Draft(root.get("id", ""), "\n".join(texts), problems, lambda line: f"{place}:{line}" if line else place)
    places: list[Fragment] = []
    start = 0
    for sentence, text in zip(sentences, texts, strict=True):
        for entity in sentence.findall("entity"):
            offsets = entity.get("charOffset", "")
            if not _OFFSETS.fullmatch(offsets):
                problems.report("malformed-line", "charOffset is not start-end", where=draft.where(entity.sourceline))
                continue
            pieces = ((int(a) + start, int(b) + start + 1) for a, b in (p.split("-") for p in offsets.split(";")))
            name, label, shown = (entity.get(key, "") for key in ("id", "type", "text"))
            draft.span(pieces, label, span_id=name, expected=shown, line=entity.sourceline)
        for pair in sentence.findall("pair"):
            if pair.get("ddi") == "true":
                name, kind, head, tail = (pair.get(key, "") for key in ("id", "type", "e1", "e2"))
                draft.relation(kind, head, tail, relation_id=name, line=pair.sourceline)
        places.append((start, start + len(text)))
        start += len(text) + 1
    return draft.document(meta={"sentences": ";".join(f"{a} {b}" for a, b in places)} if places else {})


def _sentences(document: Document) -> list[Fragment]:
    """Where the sentences are: as read, else the lines."""
    known = document.meta.get("sentences", "")
    if re.fullmatch(r"\d+ \d+(;\d+ \d+)*", known):
        cells = [piece.split(" ") for piece in known.split(";")]
        places = [(int(a), int(b)) for a, b in cells]
        if "\n".join(document.text[a:b] for a, b in places) == document.text:
            return places
    lines = [len(line) for line in document.text.split("\n")]
    starts = itertools.accumulate([0, *(length + 1 for length in lines[:-1])])
    return [(start, start + length) for start, length in zip(starts, lines, strict=True)]


def _lines(document: Document, losses: Counter[str]) -> Iterator[str]:
    losses.update(unheld(document, {"spans", DISCONTINUOUS, RELATIONS, META}))
    losses[META] += len(document.meta.keys() - {"sentences"})
    links: dict[tuple[str, str], list[str]] = {}
    for relation in document.relations:
        links.setdefault((relation.head, relation.tail), []).append(relation.label)
    placed = related = 0
    yield from ('<?xml version="1.0" encoding="UTF-8"?>', f'<document id="{_held(document.id, losses)}">')
    for number, (start, end) in enumerate(_sentences(document)):
        name = f"{document.id}.s{number}"
        text = document.text[start:end]
        yield f'    <sentence id="{_held(name, losses)}" text="{_attribute(text, losses)}">'
        inside = [span for span in document.spans if start <= span.start and span.end <= end]
        placed += len(inside)
        names = [f"{name}.e{index}" for index in range(len(inside))]
        for span, entity in zip(inside, names, strict=True):
            losses[RENAMED] += span.id not in ("", entity)
            pieces = ";".join(f"{a - start}-{b - start - 1}" for a, b in span.fragments)
            shown = _attribute(span.text_in(document.text), Counter())
            label = _held(span.label, losses)
            yield f'        <entity id="{_held(entity, losses)}" charOffset="{pieces}" type="{label}" text="{shown}"/>'
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
    """Every pair of the sentence, with what joins it; a pair joined twice is listed twice."""
    number = itertools.count()
    for (first, name1), (second, name2) in itertools.combinations(entities, 2):
        forward, backward = links.get((first.id, second.id), []), links.get((second.id, first.id), [])
        joined: list[tuple[str, str, str | None]] = [(name1, name2, kind) for kind in forward]
        joined += [(name2, name1, kind) for kind in backward]
        for e1, e2, kind in joined or [(name1, name2, None)]:
            cells = [
                ("id", f"{sentence}.p{next(number)}"),
                ("e1", e1),
                ("e2", e2),
                ("ddi", str(kind is not None).lower()),
            ]
            cells += [("type", kind)] if kind not in (None, "untyped") else []
            shown = " ".join(f'{key}="{_held(cell or "", losses)}"' for key, cell in cells)
            yield f"        <pair {shown}/>", kind is not None


def _held(text: str, losses: Counter[str]) -> str:
    return xml.escape(xml.holdable(text, losses))


def _attribute(text: str, losses: Counter[str]) -> str:
    """Sentence text: carriage returns, written as references, survive in attributes."""
    return "&#13;".join(_held(piece, losses) for piece in text.split("\r"))


FORMAT = DdiXml()
