"""Species-800: abstracts as files, mentions in `S800.tsv` with inclusive end offsets.

A mention's NCBI Taxonomy id is the attribute "concept"; the PubMed id of an abstract is in meta as `pmid`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from osler.formats.base import SourceReading, StandOffFormat
from osler.formats.draft import Draft, file_stem, report_leftovers, rows_by_document
from osler.formats.output import (
    ATTRIBUTES,
    META,
    RENAMED,
    SPANS,
    OutputFolder,
    documents,
    flattened,
    renumbered,
    tab_line,
)
from osler.formats.sources import SourceTree
from osler.text.document import Document, Record

_LINE = re.compile(r"([^\t]*)\t([^\t:]*):([^\t]*)\t(\d+)\t(\d+)\t(.*)")


@dataclass(frozen=True)
class S800(StandOffFormat):
    """Abstract files and one table of mentions."""

    label: str = "Species"

    def _detect(self, tree: SourceTree) -> bool:
        return any(_LINE.fullmatch(line) for name in tree.names("*s800.tsv") for line in tree.head(name, 1))

    def _read(self, reading: SourceReading) -> Iterator[Document]:
        for table in reading.tree.names("*s800.tsv"):
            malformed = "not taxid, document:pmid, start, end and mention"
            mentions = rows_by_document(reading, table, _mention, malformed)
            for name in reading.tree.names(f"{table[: -len('s800.tsv')]}abstracts/*.txt"):
                stem = file_stem(name, ".txt")
                reading.check_new(stem, name)
                draft = Draft(reading, stem, reading.tree.text(name), table)
                rows = mentions.pop(stem, [])
                for number, (concept, _, *cells, shown) in rows:
                    attributes = {"concept": concept} if concept else {}
                    offsets = draft.numbers(cells, number)
                    if offsets is None:
                        continue
                    edge = (offsets[0], offsets[1] + 1)
                    draft.span((edge,), self.label, expected=shown, attributes=attributes, line=number)
                pmid = rows[0][1][1] if rows else ""
                yield draft.document(meta={"pmid": pmid} if pmid else {})
            report_leftovers(reading, table, mentions, "a mention belongs to no abstract")

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        folder = OutputFolder(path, losses)
        rows: list[str] = []
        for document in documents(records, losses, holds={SPANS, ATTRIBUTES, META}):
            stem = folder.stem(document.id)
            folder.write(f"abstracts/{stem}.txt", document.text)
            pmid = document.meta.get("pmid", "")
            held = sum(not span.discontinuous for span in document.spans)
            losses[META] += len(document.meta.keys() - ({"pmid"} if held else set()))
            losses[ATTRIBUTES] += sum(len(relation.attributes) for relation in document.relations)
            losses[RENAMED] += renumbered(span for span in document.spans if not span.discontinuous)
            for span in document.spans:
                losses[ATTRIBUTES] += len(span.attributes.keys() - {"concept"})
                losses["labels rewritten"] += span.label != self.label
                if span.discontinuous:
                    continue
                shown = flattened(span.text_in(document.text), "\t\n\r", Counter())
                concept = span.attributes.get("concept", "")
                rows.append(tab_line((concept, f"{stem}:{pmid}", str(span.start), str(span.end - 1), shown), losses))
        folder.write("S800.tsv", "".join(rows))


def _mention(line: str) -> tuple[str, tuple[str, ...]] | None:
    match = _LINE.fullmatch(line)
    return (match[2], match.group(1, 3, 4, 5, 6)) if match else None


FORMAT = S800("s800", "Species-800: abstracts/*.txt and S800.tsv", ("s800.tsv",), "folder")
