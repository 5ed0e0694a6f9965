"""ShARe/CLEF eHealth 2013 task 1: reports as text, disorders in pipe files of the same name.

`report.txt||Disease_Disorder||C0000000||start||end[||start||end…]`, half-open, in the raw report; more than one pair
is a discontinuous mention. The concept (or `CUI-less`) is the attribute "concept". Reports and gold have the same
file names, so the folder decides: the innermost folder with "gold" in its name makes a file gold, one with "corpus"
or "reports" makes it a report.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from osler.formats.base import SourceReading, StandOffFormat
from osler.formats.draft import Draft
from osler.formats.output import ATTRIBUTES, DISCONTINUOUS, RENAMED, SPANS, OutputFolder, documents, renumbered
from osler.formats.sources import SourceTree
from osler.text.document import Document, Record

_LINE = re.compile(r"[^|]+\|\|[^|]+\|\|[^|]*(?:\|\|\d+\|\|\d+)+(?:\|\|)?")
_SUFFIX = re.compile(r"(\.pipe)?\.txt$|\.pipe$", re.IGNORECASE)


@dataclass(frozen=True)
class ShareClef(StandOffFormat):
    """Reports and pipe files."""

    def _detect(self, tree: SourceTree) -> bool:
        heads = (tree.head(name, 1) for name in tree if _is_gold(name))
        return any(head and _LINE.fullmatch(head[0].strip()) for head in heads)

    def _read(self, reading: SourceReading) -> Iterator[Document]:
        names = [name for name in reading.tree if _SUFFIX.search(name)]
        gold = {_stem(name): name for name in names if _is_gold(name)}
        reports = [name for name in names if not _is_gold(name)]
        # A folder in which no text has a gold file holds no reports (a README, for example).
        folders = {name.rpartition("/")[0] for name in reports if _stem(name) in gold}
        for stem in sorted(gold.keys() - {_stem(name) for name in reports}):
            reading.report("missing-text", "the report of this gold file is missing", gold[stem])
        for name in reports:
            stem = _stem(name)
            if name.rpartition("/")[0] not in folders:
                continue
            reading.check_new(stem, name)
            if stem not in gold:
                reading.report("missing-annotation", "this report has no gold file", name)
            yield _document(reading, stem, name, gold.get(stem))

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        folder = OutputFolder(path, losses)
        for document in documents(records, losses, holds={SPANS, DISCONTINUOUS, ATTRIBUTES}):
            stem = folder.stem(document.id)
            lines = []
            for span in document.spans:
                losses[ATTRIBUTES] += len(span.attributes.keys() - {"concept"})
                cells = [span.label, span.attributes.get("concept", "CUI-less")]
                safe = [re.sub(r"[|\s]+", "_", cell) or "_" for cell in cells]
                losses["labels rewritten"] += cells != safe
                offsets = (str(offset) for fragment in span.fragments for offset in fragment)
                lines.append("||".join((f"{stem}.txt", *safe, *offsets)))
            losses[RENAMED] += renumbered(document.spans)
            losses[ATTRIBUTES] += sum(len(relation.attributes) for relation in document.relations)
            folder.write(f"ALLREPORTS/{stem}.txt", document.text)
            folder.write(f"Task1Gold/{stem}.txt", "".join(f"{line}\n" for line in lines))


def _stem(name: str) -> str:
    return _SUFFIX.sub("", name.rsplit("/", 1)[-1])


def _is_gold(name: str) -> bool:
    if name.lower().endswith((".pipe", ".pipe.txt")):
        return True
    for folder in reversed(name.lower().split("/")[:-1]):
        if "corpus" in folder or "reports" in folder:
            return False
        if "gold" in folder:
            return True
    return False


def _document(reading: SourceReading, stem: str, name: str, gold: str | None) -> Document:
    draft = Draft(reading, stem, reading.tree.text(name), gold or name)
    for number, line in reading.tree.lines(gold) if gold else ():
        if not line.strip():
            continue
        if not _LINE.fullmatch(line.strip()):
            draft.report("malformed-line", "not file||type||concept||start||end", number)
            continue
        _, label, concept, *cells = line.strip().removesuffix("||").split("||")
        offsets = draft.numbers(cells, number)
        if offsets is None:
            continue
        fragments = zip(offsets[::2], offsets[1::2], strict=True)
        draft.span(fragments, label, attributes={"concept": concept} if concept else {}, line=number)
    return draft.document()


FORMAT = ShareClef(
    "share_clef", "ShARe/CLEF 2013: reports and pipe-separated disorder offsets", (".txt", ".pipe.txt"), "folder"
)
