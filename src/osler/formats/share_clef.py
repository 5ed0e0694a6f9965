"""ShARe/CLEF eHealth 2013 task 1: reports as text, disorders in pipe files of the same name.

`report.txt||Disease_Disorder||C0000000||start||end[||start||end…]`, half-open, in the raw report; more than one pair
is a discontinuous mention. The concept (or `CUI-less`) is the attribute "concept". Reports and gold have the same
file names, so the folder tells: the last folder of the path with "gold" in its name makes it gold, one with "corpus"
or "reports" makes it a report.
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
from osler.formats.output import ATTRIBUTES, DISCONTINUOUS, OutputFolder, only_documents, unheld
from osler.formats.sources import Source, SourceTree, opened
from osler.text.document import Document, Record

_LINE = re.compile(r"[^|]+\|\|[^|]+\|\|[^|]*(?:\|\|\d+\|\|\d+)+(?:\|\|)?")
_SUFFIX = re.compile(r"(\.pipe)?\.txt$|\.pipe$", re.IGNORECASE)


@dataclass(frozen=True)
class ShareClef:
    """Reports and pipe files."""

    name: str = "share_clef"
    description: str = "ShARe/CLEF 2013: reports and pipe-separated disorder offsets"
    suffixes: tuple[str, ...] = (".txt", ".pipe.txt")
    layout: Literal["file", "folder"] = "folder"

    def detect(self, source: Source) -> bool:
        """Whether some gold file has a pipe line."""
        with opened(source) as tree:
            heads = (tree.head(name, 1) for name in tree if _is_gold(name))
            return any(head and _LINE.fullmatch(head[0].strip()) for head in heads)

    def read(self, source: Source, *, problems: Problems | None = None) -> Iterator[Document]:
        """Yield the reports in the order of their names."""
        found = strict_unless(problems)
        once = Once(found)
        with opened(source) as tree:
            names = [name for name in tree if _SUFFIX.search(name)]
            gold = {_stem(name): name for name in names if _is_gold(name)}
            reports = [name for name in names if not _is_gold(name)]
            # Without a gold file beside them, texts such as a README are no reports.
            folders = {name.rpartition("/")[0] for name in reports if _stem(name) in gold}
            for stem in sorted(gold.keys() - {_stem(name) for name in reports}):
                found.report("missing-text", "the report of this gold file is missing", where=tree.where(gold[stem]))
            for name in reports:
                stem = _stem(name)
                if name.rpartition("/")[0] not in folders:
                    continue
                once.check(stem, tree.where(name))
                if stem not in gold:
                    found.report("missing-annotation", "this report has no gold file", where=tree.where(name))
                yield _document(tree, stem, name, gold.get(stem), found)

    def write(self, records: Iterable[Record], path: Path) -> Loss:
        """Write the folders ALLREPORTS and Task1Gold."""
        losses: Counter[str] = Counter()
        folder = OutputFolder(path, losses)
        for record in records:
            if (document := only_documents(record, losses)) is None:
                continue
            losses.update(unheld(document, {"spans", DISCONTINUOUS, ATTRIBUTES}))
            stem = folder.stem(document.id)
            lines = []
            for span in document.spans:
                losses[ATTRIBUTES] += len(span.attributes.keys() - {"concept"})
                cells = [span.label, span.attributes.get("concept", "CUI-less")]
                safe = [re.sub(r"[|\s]+", "_", cell) or "_" for cell in cells]
                losses["labels rewritten"] += cells != safe
                offsets = (str(offset) for piece in span.fragments for offset in piece)
                lines.append("||".join((f"{stem}.txt", *safe, *offsets)))
            losses[ATTRIBUTES] += sum(len(relation.attributes) for relation in document.relations)
            folder.write(f"ALLREPORTS/{stem}.txt", document.text)
            folder.write(f"Task1Gold/{stem}.txt", "".join(f"{line}\n" for line in lines))
        return Loss(+losses)


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


def _document(tree: SourceTree, stem: str, name: str, gold: str | None, problems: Problems) -> Document:
    draft = Draft(stem, tree.text(name), problems, lambda line: tree.where(gold or name, line))
    for number, line in tree.lines(gold) if gold else ():
        if not line.strip():
            continue
        if not _LINE.fullmatch(line.strip()):
            problems.report(
                "malformed-line", "not file||type||concept||start||end", where=tree.where(gold or name, number)
            )
            continue
        _, label, concept, *offsets = line.strip().removesuffix("||").split("||")
        numbers = [int(offset) for offset in offsets]
        pieces = zip(numbers[::2], numbers[1::2], strict=True)
        draft.span(pieces, label, attributes={"concept": concept} if concept else {}, line=number)
    return draft.document()


FORMAT = ShareClef()
