"""UIMA XMI as WebAnno and INCEpTION export it: one file per document, with the text in the element `Sofa`.

Annotations of the project's own layers (namespace `webanno/custom`) that have a begin and an end are mentions: the layer is the
label, the features are attributes. Layers of the tool itself (tokens, sentences) and links between annotations are not read.
UIMA counts UTF-16 code units.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from osler.formats import xml
from osler.formats.base import Format, SourceReading
from osler.formats.draft import Draft, file_stem
from osler.formats.offsets import Counting
from osler.formats.output import ATTRIBUTES, RENAMED, SPANS, OutputFolder, documents, renumbered
from osler.formats.sources import SourceTree
from osler.text.document import Document, Record, Span

_XMI, _CAS, _CUSTOM = "http://www.omg.org/XMI", "http:///uima/cas.ecore", "http:///webanno/custom.ecore"
_ROOT = f'<xmi:XMI xmlns:xmi="{_XMI}" xmlns:cas="{_CAS}" xmlns:custom="{_CUSTOM}" xmi:version="2.0">'
_STRUCTURE = {f"{{{_XMI}}}id", "sofa", "begin", "end"}
_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)


@dataclass(frozen=True)
class WebAnnoXmi(Format):
    """One XMI file per document. `layers` lists the layers to read, by default all custom layers."""

    layers: tuple[str, ...] = ()

    def _detect(self, tree: SourceTree) -> bool:
        names = tree.names("*.xml", "*.xmi")
        return bool(names) and xml.root_tag("\n".join(tree.head(names[0], 3)).encode()[:1000])[0] == "xmi:XMI"

    def _read(self, reading: SourceReading) -> Iterator[Document]:
        for name in reading.tree.names("*.xml", "*.xmi"):
            stem = file_stem(name, ".xmi")
            reading.check_new(stem, name)
            root = xml.parse(reading.tree.read_bytes(name), reading.tree.where(name))
            yield self._document(reading, name, stem, root)

    def _document(self, reading: SourceReading, file: str, stem: str, root: Any) -> Document:
        views = root.findall(f"{{{_CAS}}}Sofa")
        draft = Draft(reading, stem, views[0].get("sofaString", "") if views else "", file)
        if len(views) != 1:
            draft.report("malformed-line", f"{len(views)} texts in one file, not one", None)
        counting = Counting(draft.text, ("utf-16",)) if any(letter > "\uffff" for letter in draft.text) else None
        # A feature FEATURE of LAYER that refers to other annotations is stored in LAYERFEATURELink elements.
        links = {element.tag.rpartition("}")[2] for element in root.iterchildren(f"{{{_CUSTOM}}}*")}
        for element in root.iterchildren(f"{{{_CUSTOM}}}*"):
            layer, line = element.tag.rpartition("}")[2], element.sourceline
            if "begin" not in element.attrib or (self.layers and layer not in self.layers):
                continue
            place = draft.numbers((element.get("begin", ""), element.get("end", "")), line)
            if place is not None:
                start, end = counting.fragment(*place) if counting else place
                own = ((k, v) for k, v in element.attrib.items() if k not in _STRUCTURE)
                features = {k: v for k, v in own if f"{layer}{k}Link" not in links}
                draft.span([(start, end)], layer, attributes=features, line=line)
        return draft.document()

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        folder = OutputFolder(path, losses)
        for document in documents(records, losses, holds={SPANS, ATTRIBUTES}):
            stem = folder.stem(document.id)
            folder.write(f"{stem}.xml", "".join(f"{line}\n" for line in _lines(document, losses)))


def _lines(document: Document, losses: Counter[str]) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield _ROOT
    yield '    <cas:NULL xmi:id="0"/>'
    shown = xml.encoded(document.text, losses)
    yield f'    <cas:Sofa xmi:id="1" sofaNum="1" sofaID="_InitialView" mimeType="text" sofaString="{shown}"/>'
    kept = [span for span in document.spans if not span.discontinuous]
    losses[RENAMED] += renumbered(kept)
    places = [0, *accumulate(1 + (letter > "\uffff") for letter in document.text)]
    for number, span in enumerate(kept, 2):
        begin, end = places[span.start], places[span.end]
        features = "".join(f' {name}="{value}"' for name, value in _features(span, losses))
        layer = _name(span.label, losses)
        yield f'    <custom:{layer} xmi:id="{number}" sofa="1" begin="{begin}" end="{end}"{features}/>'
    yield '    <cas:View sofa="1"/>'
    yield "</xmi:XMI>"


def _features(span: Span, losses: Counter[str]) -> Iterator[tuple[str, str]]:
    for name, value in span.attributes.items():
        if _NAME.fullmatch(name) and name not in _STRUCTURE:
            yield name, xml.encoded(value, losses)
        else:
            losses[ATTRIBUTES] += 1


def _name(label: str, losses: Counter[str]) -> str:
    """Rewrite a label as a valid element name."""
    if _NAME.fullmatch(label):
        return label
    losses["labels rewritten"] += 1
    return re.sub(r"[^\w.-]+", "_", f"L_{label}", flags=re.ASCII)


FORMAT = WebAnnoXmi("webanno_xmi", "UIMA XMI of WebAnno and INCEpTION, without links", (".xml", ".xmi"), "folder")
