"""i2b2 XML: a text in CDATA and its tags by offset: i2b2 2012 (events, times), i2b2 2014 and MEDDOCAN (identifiers).

Offsets are half-open and count from the first character after `<![CDATA[`. In 2014 and MEDDOCAN the attribute TYPE is
the label and the element's name its category; in 2012 the attribute `type` is the label and the element is EVENT,
TIMEX3 or SECTIME. The element's name is kept as the attribute "element", other attributes under their own names. TLINK
elements are relations. Some texts contain literal entities such as `&apos;`, which count as all of their characters, while
the text stated for a mention has the plain character; the comparison allows for that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osler.core.errors import InputError
from osler.formats import xml
from osler.formats.base import SourceReading, StandOffFormat
from osler.formats.draft import Draft, file_stem
from osler.formats.output import ATTRIBUTES, DISCONTINUOUS, RELATIONS, SPANS, OutputFolder, documents
from osler.formats.sources import SourceTree
from osler.formats.tokens import respaced
from osler.text.document import TOKENS, Document, Record

_PLACE = {"id", "start", "end", "text"}
_LINK = {"id", "fromID", "toID", "fromText", "toText", "type"}
_NAME = re.compile(r"[A-Za-z_][\w.-]*")
# Some files of 2012 have a bare ampersand in an attribute. Inside CDATA it is valid and must stay.
_SECTION = re.compile(rb"(<!\[CDATA\[.*?\]\]>)", re.DOTALL)
_BARE = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#\d+|#x[0-9A-Fa-f]+);)")


@dataclass(frozen=True)
class I2b2Xml(StandOffFormat):
    """One XML file per record. `root`, `label` (the attribute with the label) and `element` differ per challenge."""

    root: str = ""
    label: str = "TYPE"
    element: str = "OTHER"
    tokenised: bool = False

    def _detect(self, tree: SourceTree) -> bool:
        return any(f"<{self.root}>" in line for line in tree.first_lines("*.xml", 4))

    def _read(self, reading: SourceReading) -> Iterator[Document]:
        for name in reading.tree.names("*.xml"):
            stem = file_stem(name, ".xml")
            reading.check_new(stem, name)
            yield self._document(reading, name, stem)

    def _document(self, reading: SourceReading, name: str, stem: str) -> Document:
        root = _parse(reading.tree, name)
        text, tags = root.find("TEXT"), root.find("TAGS")
        if text is None or tags is None:
            where = reading.tree.where(name)
            raise InputError("no TEXT or no TAGS element", where=where, fix="Check the format of the file")
        draft = Draft(reading, stem, text.text or "", name)
        for element in tags:
            attributes = {str(key): str(value) for key, value in element.attrib.items()}
            line = element.sourceline
            if "fromID" in attributes:
                draft.relation(
                    attributes.get("type", ""),
                    attributes["fromID"],
                    attributes.get("toID", ""),
                    relation_id=attributes.get("id", ""),
                    attributes={key: value for key, value in attributes.items() if key not in _LINK and value},
                    line=line,
                )
                continue
            offsets = draft.numbers((attributes.get("start", ""), attributes.get("end", "")), line)
            if offsets is None:
                continue
            kind = "TYPE" if "TYPE" in attributes else "type"
            kept = {key: value for key, value in attributes.items() if key not in _PLACE and key != kind and value}
            draft.span(
                ((offsets[0], offsets[1]),),
                attributes.get(kind, ""),
                span_id=attributes.get("id", ""),
                expected=attributes.get("text"),
                attributes={"element": str(element.tag), **kept},
                line=line,
            )
        return draft.document(meta=TOKENS if self.tokenised else None)

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        folder = OutputFolder(path, losses)
        for document in documents(records, losses, holds={SPANS, DISCONTINUOUS, RELATIONS, ATTRIBUTES}, meta=TOKENS):
            stem = folder.stem(document.id)
            if self.tokenised:
                document = respaced(document, losses, empty_lines=True)
            folder.write(f"{stem}.xml", self._xml(document, losses))

    def _xml(self, document: Document, losses: Counter[str]) -> str:
        text = xml.holdable(document.text, losses)
        lines = [
            '<?xml version="1.0" encoding="UTF-8" ?>',
            f"<{self.root}>",
            f"<TEXT>{xml.cdata(text)}</TEXT>",
            "<TAGS>",
        ]
        written: dict[str, str] = {}
        for number, span in enumerate(document.spans):
            if span.discontinuous:
                losses[DISCONTINUOUS] += 1
                continue
            shown = text[span.start : span.end]
            name = span.id or f"T{number}"
            written[name] = shown
            place = {"id": name, "start": str(span.start), "end": str(span.end), "text": shown, self.label: span.label}
            element = span.attributes.get("element", self.element)
            element = element if _NAME.fullmatch(element) else self.element
            lines.append(_tag(element, place, span.attributes, losses))
        for number, relation in enumerate(document.relations):
            head, tail = relation.head, relation.tail
            if self.label == "TYPE" or head not in written or tail not in written:
                losses[RELATIONS] += 1
                continue
            ends = {"fromID": head, "fromText": written[head], "toID": tail, "toText": written[tail]}
            link = {"id": relation.id or f"TL{number}", **ends, "type": relation.label}
            lines.append(_tag("TLINK", link, relation.attributes, losses))
        return "\n".join([*lines, "</TAGS>", f"</{self.root}>", ""])


def _parse(tree: SourceTree, name: str) -> Any:
    data = tree.read_bytes(name)
    try:
        return xml.parse(data, tree.where(name))
    except InputError:
        parts = _SECTION.split(data)
        mended = b"".join(p if p.startswith(b"<![CDATA[") else _BARE.sub(b"&amp;", p) for p in parts)
        if mended == data:
            raise
        return xml.parse(mended, tree.where(name))


def _tag(element: str, first: dict[str, str], more: Any, losses: Counter[str]) -> str:
    pairs = dict(first)
    for key, value in more.items():
        if key == "element":
            continue
        if _NAME.fullmatch(key) and key not in pairs and key not in _PLACE | _LINK and value:
            pairs[key] = value
        else:
            losses[ATTRIBUTES] += 1
    cells = (f'{key}="{xml.encoded(value, losses)}"' for key, value in pairs.items())
    return f"<{element} {' '.join(cells)} />"


I2B2_2012 = I2b2Xml(
    "i2b2_2012",
    "i2b2 2012 XML: EVENT, TIMEX3, SECTIME and TLINK",
    (".xml",),
    "folder",
    root="ClinicalNarrativeTemporalAnnotation",
    label="type",
    element="EVENT",
    tokenised=True,
)
I2B2_2014 = I2b2Xml("i2b2_2014", "i2b2 2014 XML: protected health information", (".xml",), "folder", root="deIdi2b2")
MEDDOCAN = I2b2Xml(
    "meddocan_xml", "MEDDOCAN XML: protected health information, Spanish", (".xml",), "folder", root="MEDDOCAN"
)
