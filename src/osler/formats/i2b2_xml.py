"""i2b2 XML: a text in CDATA and its tags by offset: i2b2 2012 (events, times), i2b2 2014 and MEDDOCAN (identifiers).

Offsets are half-open and count from the first character after `<![CDATA[`. In 2014 and MEDDOCAN the attribute TYPE is
the label and the element's name its category; in 2012 the attribute `type` is the label and the element EVENT, TIMEX3
or SECTIME. The element's name is kept as the attribute "element", other attributes under their own names. TLINK
elements are relations. Entities such as `&apos;` stand literally in some texts and count with all their characters; a
mention's own text has the plain character and is compared so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from osler.core.errors import InputError
from osler.formats import xml
from osler.formats.base import Loss, Once, Problems, strict_unless
from osler.formats.draft import Draft
from osler.formats.output import ATTRIBUTES, DISCONTINUOUS, META, RELATIONS, OutputFolder, only_documents, unheld
from osler.formats.sources import Source, SourceTree, opened
from osler.formats.tokens import TOKENS, respaced
from osler.text.document import Document, Record, Span

_PLACE = {"id", "start", "end", "text"}
_LINK = {"id", "fromID", "toID", "fromText", "toText", "type"}
_NAME = re.compile(r"[A-Za-z_][\w.-]*")
# A bare ampersand in an attribute: some files of 2012 have it. Inside CDATA it is lawful and must stay.
_SECTION = re.compile(rb"(<!\[CDATA\[.*?\]\]>)", re.DOTALL)
_BARE = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#\d+|#x[0-9A-Fa-f]+);)")


@dataclass(frozen=True)
class I2b2Xml:
    """One XML file a record; `root` and `label` (the attribute that holds it) tell the challenges apart in writing."""

    name: str
    description: str
    root: str
    label: str = "TYPE"
    element: str = "OTHER"
    tokenised: bool = False
    suffixes: tuple[str, ...] = (".xml",)
    layout: Literal["file", "folder"] = "folder"

    def detect(self, source: Source) -> bool:
        """Whether the first XML file has this root element."""
        with opened(source) as tree:
            heads = (tree.head(name, 4) for name in tree.names("*.xml")[:1])
            return any(f"<{self.root}>" in line for head in heads for line in head)

    def read(self, source: Source, *, problems: Problems | None = None) -> Iterator[Document]:
        """Yield the records in the order of their names."""
        found = strict_unless(problems)
        once = Once(found)
        with opened(source) as tree:
            for name in tree.names("*.xml"):
                stem = name.rsplit("/", 1)[-1][: -len(".xml")]
                once.check(stem, tree.where(name))
                yield self._document(tree, name, stem, found)

    def _document(self, tree: SourceTree, name: str, stem: str, problems: Problems) -> Document:
        root = _parse(tree, name)
        text, tags = root.find("TEXT"), root.find("TAGS")
        if text is None or tags is None:
            raise InputError("no TEXT or no TAGS element", where=tree.where(name), fix="Check the format of the file")
        draft = Draft(stem, text.text or "", problems, lambda line: tree.where(name, line))
        for element in tags:
            attributes = {str(key): str(value) for key, value in element.attrib.items()}
            if "fromID" in attributes:
                _link(draft, element, attributes)
                continue
            edges = attributes.get("start", ""), attributes.get("end", "")
            if not all(edge.isdigit() for edge in edges):
                problems.report("malformed-line", "a tag has no offsets", where=draft.where(element.sourceline))
                continue
            kind = "TYPE" if "TYPE" in attributes else "type"
            kept = {key: value for key, value in attributes.items() if key not in _PLACE and key != kind and value}
            draft.span(
                ((int(edges[0]), int(edges[1])),),
                attributes.get(kind, ""),
                span_id=attributes.get("id", ""),
                expected=attributes.get("text"),
                attributes={"element": str(element.tag), **kept},
                line=element.sourceline,
            )
        return draft.document(meta=TOKENS if self.tokenised else None)

    def write(self, records: Iterable[Record], path: Path) -> Loss:
        """Write a folder with one XML file for each document."""
        losses: Counter[str] = Counter()
        folder = OutputFolder(path, losses)
        for record in records:
            if (document := only_documents(record, losses)) is None:
                continue
            losses.update(unheld(document, {"spans", DISCONTINUOUS, RELATIONS, ATTRIBUTES, META}))
            losses[META] += len(document.meta.keys() - TOKENS.keys())
            stem = folder.stem(document.id)
            if self.tokenised:
                document = respaced(document, losses, empty_lines=True)
            folder.write(f"{stem}.xml", self._xml(document, losses))
        return Loss(+losses)

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
            lines.append(_tag(self._element(span), place, span.attributes, losses))
        for number, relation in enumerate(document.relations):
            head, tail = relation.head, relation.tail
            if self.label == "TYPE" or head not in written or tail not in written:
                losses[RELATIONS] += 1
                continue
            ends = {"fromID": head, "fromText": written[head], "toID": tail, "toText": written[tail]}
            link = {"id": relation.id or f"TL{number}", **ends, "type": relation.label}
            lines.append(_tag("TLINK", link, relation.attributes, losses))
        return "\n".join([*lines, "</TAGS>", f"</{self.root}>", ""])

    def _element(self, span: Span) -> str:
        name = span.attributes.get("element", self.element)
        return name if _NAME.fullmatch(name) else self.element


def _parse(tree: SourceTree, name: str) -> Any:
    data = tree.read_bytes(name)
    try:
        return xml.parse(data, tree.where(name))
    except InputError:
        pieces = _SECTION.split(data)
        mended = b"".join(p if p.startswith(b"<![CDATA[") else _BARE.sub(b"&amp;", p) for p in pieces)
        if mended == data:
            raise
        return xml.parse(mended, tree.where(name))


def _link(draft: Draft, element: Any, attributes: dict[str, str]) -> None:
    draft.relation(
        attributes.get("type", ""),
        attributes["fromID"],
        attributes.get("toID", ""),
        relation_id=attributes.get("id", ""),
        attributes={key: value for key, value in attributes.items() if key not in _LINK and value},
        line=element.sourceline,
    )


def _tag(element: str, first: dict[str, str], more: Any, losses: Counter[str]) -> str:
    pairs = dict(first)
    for key, value in more.items():
        if key == "element":
            continue
        if _NAME.fullmatch(key) and key not in pairs and key not in _PLACE | _LINK and value:
            pairs[key] = value
        else:
            losses[ATTRIBUTES] += 1
    cells = (f'{key}="{xml.escape(xml.holdable(value, losses))}"' for key, value in pairs.items())
    return f"<{element} {' '.join(cells)} />"


I2B2_2012 = I2b2Xml(
    "i2b2_2012",
    "i2b2 2012 XML: EVENT, TIMEX3, SECTIME and TLINK",
    "ClinicalNarrativeTemporalAnnotation",
    label="type",
    element="EVENT",
    tokenised=True,
)
I2B2_2014 = I2b2Xml("i2b2_2014", "i2b2 2014 XML: protected health information", "deIdi2b2")
MEDDOCAN = I2b2Xml("meddocan_xml", "MEDDOCAN XML: protected health information, Spanish", "MEDDOCAN")
