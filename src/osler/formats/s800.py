"""Species-800: abstracts as files, mentions in `S800.tsv` with offsets whose end is included.

A mention's NCBI Taxonomy id is the attribute "concept", the PubMed id of an abstract is in meta as `pmid`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from osler.formats.base import Loss, Once, Problems, strict_unless
from osler.formats.draft import Draft
from osler.formats.output import ATTRIBUTES, DISCONTINUOUS, META, OutputFolder, flattened, only_documents, unheld
from osler.formats.sources import Source, opened
from osler.text.document import Document, Record

_LINE = re.compile(r"([^\t]*)\t([^\t:]*):([^\t]*)\t(\d+)\t(\d+)\t(.*)")


@dataclass(frozen=True)
class S800:
    """Abstract files and one table of mentions."""

    name: str = "s800"
    description: str = "Species-800: abstracts/*.txt and S800.tsv"
    suffixes: tuple[str, ...] = ("s800.tsv",)
    layout: Literal["file", "folder"] = "folder"
    label: str = "Species"

    def detect(self, source: Source) -> bool:
        """Whether the table is there."""
        with opened(source) as tree:
            return any(_LINE.fullmatch(line) for name in tree.names("*s800.tsv") for line in tree.head(name, 1))

    def read(self, source: Source, *, problems: Problems | None = None) -> Iterator[Document]:
        """Yield the abstracts in the order of their names."""
        found = strict_unless(problems)
        once = Once(found)
        with opened(source) as tree:
            for table in tree.names("*s800.tsv"):
                mentions: dict[str, list[tuple[int, re.Match[str]]]] = defaultdict(list)
                for number, line in tree.lines(table):
                    match = _LINE.fullmatch(line)
                    if match:
                        mentions[match[2]].append((number, match))
                    elif line.strip():
                        detail = "not taxid, document:pmid, start, end and mention"
                        found.report("malformed-line", detail, where=tree.where(table, number))
                for name in tree.names(f"{table[: -len('s800.tsv')]}abstracts/*.txt"):
                    stem = name.rsplit("/", 1)[-1][: -len(".txt")]
                    once.check(stem, tree.where(name))
                    draft = Draft(stem, tree.text(name), found, lambda line, table=table: tree.where(table, line))  # type: ignore[misc]
                    rows = mentions.pop(stem, [])
                    for number, match in rows:
                        edge = (int(match[4]), int(match[5]) + 1)
                        draft.span(
                            (edge,),
                            self.label,
                            expected=match[6],
                            attributes={"concept": match[1]} if match[1] else {},
                            line=number,
                        )
                    yield draft.document(meta={"pmid": rows[0][1][3]} if rows and rows[0][1][3] else {})
                for rows in mentions.values():
                    place = tree.where(table, rows[0][0])
                    found.report("missing-text", "a mention belongs to no abstract", where=place)

    def write(self, records: Iterable[Record], path: Path) -> Loss:
        """Write abstracts/ and S800.tsv."""
        losses: Counter[str] = Counter()
        folder = OutputFolder(path, losses)
        rows: list[str] = []
        for record in records:
            if (document := only_documents(record, losses)) is None:
                continue
            losses.update(unheld(document, {"spans", DISCONTINUOUS, ATTRIBUTES, META}))
            stem = folder.stem(document.id)
            folder.write(f"abstracts/{stem}.txt", document.text)
            pmid = document.meta.get("pmid", "")
            held = sum(not span.discontinuous for span in document.spans)
            losses[META] += len(document.meta.keys() - ({"pmid"} if held else set()))
            for span in document.spans:
                losses[ATTRIBUTES] += len(span.attributes.keys() - {"concept"})
                losses["labels rewritten"] += span.label != self.label
                if span.discontinuous:
                    losses[DISCONTINUOUS] += 1
                    continue
                shown = flattened(span.text_in(document.text), "\t\n\r", Counter())
                cells = (
                    span.attributes.get("concept", ""),
                    f"{stem}:{pmid}",
                    str(span.start),
                    str(span.end - 1),
                    shown,
                )
                rows.append("\t".join(flattened(cell, "\t\n\r", losses) for cell in cells))
        folder.write("S800.tsv", "".join(f"{row}\n" for row in rows))
        return Loss(+losses)


FORMAT = S800()
