"""CodiEsp: clinical cases in `text_files/` and their codes in `*D.tsv`, `*P.tsv` and `*X.tsv`.

The codes of a case are its labels, prefixed with their kind: `D:n44.8`, `P:bw03zzz`. Rows of the X table are mentions
with the label DIAGNOSTICO or PROCEDIMIENTO and the code as attribute "code"; a mention may be discontinuous.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from osler.formats.base import SourceReading, StandOffFormat
from osler.formats.draft import Draft, Rows, report_leftovers, rows_by_document
from osler.formats.output import (
    ATTRIBUTES,
    DISCONTINUOUS,
    LABELS,
    RENAMED,
    SPANS,
    OutputFolder,
    documents,
    flattened,
    renumbered,
    tab_line,
)
from osler.formats.sources import SourceTree
from osler.text.document import Document, Record, parse_fragments

_TEXT = re.compile(r"((?:.*/)?)text_files/([^/]+)\.txt")


@dataclass(frozen=True)
class Codiesp(StandOffFormat):
    """Cases and code tables."""

    def _detect(self, tree: SourceTree) -> bool:
        return any(map(_TEXT.fullmatch, tree)) and bool(tree.names("*d.tsv", "*p.tsv", "*x.tsv"))

    def _read(self, reading: SourceReading) -> Iterator[Document]:
        texts: dict[str, dict[str, str]] = defaultdict(dict)
        for name in reading.tree:
            if match := _TEXT.fullmatch(name):
                texts[match[1]][match[2]] = name
        for folder, cases in texts.items():
            tables = {kind: _table(reading, folder, kind) for kind in "DPX"}
            for stem, name in cases.items():
                reading.check_new(stem, name)
                labels = [f"{kind}:{cells[1]}" for kind in "DP" for _, cells in tables[kind][1].pop(stem, [])]
                table, rows = tables["X"]
                draft = Draft(reading, stem, reading.tree.text(name), table)
                for number, (_, label, code, shown, place) in rows.pop(stem, []):
                    attributes = {"code": code} if code else {}
                    if fragments := parse_fragments(place):
                        draft.span(fragments, label, expected=shown, attributes=attributes, line=number)
                    else:
                        draft.report("malformed-line", "offsets must look like start end;start end", number)
                yield draft.document(labels=dict.fromkeys(labels))
            for table, rows in tables.values():
                report_leftovers(reading, table, rows, "a row belongs to no case")

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        folder = OutputFolder(path, losses)
        rows: dict[str, list[tuple[str, ...]]] = {"D": [], "P": [], "X": []}
        for document in documents(records, losses, holds={SPANS, DISCONTINUOUS, ATTRIBUTES, LABELS}):
            stem = folder.stem(document.id)
            folder.write(f"text_files/{stem}.txt", document.text)
            for label in document.labels:
                kind, _, code = label.partition(":")
                if kind in ("D", "P") and code:
                    rows[kind].append((stem, code))
                else:
                    losses[LABELS] += 1
            for span in document.spans:
                losses[ATTRIBUTES] += len(span.attributes.keys() - {"code"})
                place = ";".join(f"{start} {end}" for start, end in span.fragments)
                shown = flattened(span.text_in(document.text), "\t\n\r", Counter())
                rows["X"].append((stem, span.label, span.attributes.get("code", ""), shown, place))
            losses[RENAMED] += renumbered(document.spans)
            losses[ATTRIBUTES] += sum(len(relation.attributes) for relation in document.relations)
        for kind, table in rows.items():
            folder.write(f"{path.name}{kind}.tsv", "".join(tab_line(row, losses) for row in table))


def _table(reading: SourceReading, folder: str, kind: str) -> tuple[str, Rows[list[str]]]:
    """Return name and rows of one kind of table next to the texts; empty if the release has none."""
    pattern = re.compile(rf"[^/]*{kind}\.tsv")
    names = [name for name in reading.tree if name.startswith(folder) and pattern.fullmatch(name[len(folder) :])]
    if not names:
        return "", {}
    width = 5 if kind == "X" else 2

    def parse(line: str) -> tuple[str, list[str]] | None:
        cells = line.split("\t")
        return (cells[0], cells) if len(cells) == width else None

    return names[0], rows_by_document(reading, names[0], parse, f"not {width} columns")


FORMAT = Codiesp(
    "codiesp", "CodiEsp: text_files/ and tables of codes with their evidence", ("d.tsv", "p.tsv", "x.tsv"), "folder"
)
