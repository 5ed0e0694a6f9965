"""CodiEsp: clinical cases in `text_files/` and their codes in `*D.tsv`, `*P.tsv` and `*X.tsv`.

Codes of a case are its labels, with the kind before them: `D:n44.8`, `P:bw03zzz`. Rows of the X table are mentions
with the label DIAGNOSTICO or PROCEDIMIENTO and the code as attribute "code"; a mention may be discontinuous.
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
from osler.formats.output import ATTRIBUTES, DISCONTINUOUS, LABELS, OutputFolder, flattened, only_documents, unheld
from osler.formats.sources import Source, SourceTree, opened
from osler.text.document import Document, Record

_TEXT = re.compile(r"((?:.*/)?)text_files/([^/]+)\.txt")
_PLACE = re.compile(r"\d+ \d+(;\d+ \d+)*")
_Rows = dict[str, list[tuple[int, list[str]]]]


@dataclass(frozen=True)
class Codiesp:
    """Cases and code tables."""

    name: str = "codiesp"
    description: str = "CodiEsp: text_files/ and tables of codes with their evidence"
    suffixes: tuple[str, ...] = ("d.tsv", "p.tsv", "x.tsv")
    layout: Literal["file", "folder"] = "folder"

    def detect(self, source: Source) -> bool:
        """Whether there are cases and a table of codes."""
        with opened(source) as tree:
            return any(map(_TEXT.fullmatch, tree)) and bool(tree.names("*d.tsv", "*p.tsv", "*x.tsv"))

    def read(self, source: Source, *, problems: Problems | None = None) -> Iterator[Document]:
        """Yield the cases in the order of their names."""
        found = strict_unless(problems)
        once = Once(found)
        with opened(source) as tree:
            texts: dict[str, dict[str, str]] = defaultdict(dict)
            for name in tree:
                if match := _TEXT.fullmatch(name):
                    texts[match[1]][match[2]] = name
            for folder, cases in texts.items():
                tables = {kind: _table(tree, folder, kind, found) for kind in "DPX"}
                for stem, name in cases.items():
                    once.check(stem, tree.where(name))
                    mine = {kind: (table, rows.pop(stem, [])) for kind, (table, rows) in tables.items()}
                    yield _document(tree, stem, name, mine, found)
                for table, rows in tables.values():
                    for left in rows.values():
                        place = tree.where(table, left[0][0])
                        found.report("missing-text", "a row belongs to no case", where=place)

    def write(self, records: Iterable[Record], path: Path) -> Loss:
        """Write the texts and the three tables, named after the folder."""
        losses: Counter[str] = Counter()
        folder = OutputFolder(path, losses)
        rows: dict[str, list[tuple[str, ...]]] = {"D": [], "P": [], "X": []}
        for record in records:
            if (document := only_documents(record, losses)) is None:
                continue
            losses.update(unheld(document, {"spans", DISCONTINUOUS, ATTRIBUTES, LABELS}))
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
            losses[ATTRIBUTES] += sum(len(relation.attributes) for relation in document.relations)
        for kind, table in rows.items():
            lines = ("\t".join(flattened(cell, "\t\n\r", losses) for cell in row) for row in table)
            folder.write(f"{path.name}{kind}.tsv", "".join(f"{line}\n" for line in lines))
        return Loss(+losses)


def _table(tree: SourceTree, folder: str, kind: str, problems: Problems) -> tuple[str, _Rows]:
    """The table of one kind beside the texts, by case; none where it was not given out."""
    names = [
        name for name in tree if name.startswith(folder) and re.fullmatch(rf"[^/]*{kind}\.tsv", name[len(folder) :])
    ]
    rows: _Rows = defaultdict(list)
    width = 5 if kind == "X" else 2
    for name in names[:1]:
        for number, line in tree.lines(name):
            cells = line.split("\t")
            if len(cells) == width:
                rows[cells[0]].append((number, cells))
            elif line.strip():
                problems.report("malformed-line", f"not {width} columns", where=tree.where(name, number))
    return (names[0] if names else ""), rows


def _document(
    tree: SourceTree, stem: str, name: str, mine: dict[str, tuple[str, list[tuple[int, list[str]]]]], problems: Problems
) -> Document:
    table, rows = mine["X"]
    draft = Draft(stem, tree.text(name), problems, lambda line: tree.where(table, line))
    for number, (_, label, code, shown, place) in rows:
        if not _PLACE.fullmatch(place):
            problems.report("malformed-line", "the place is not start end;start end", where=draft.where(number))
            continue
        pieces = ((int(a), int(b)) for a, b in (piece.split(" ") for piece in place.split(";")))
        draft.span(pieces, label, expected=shown, attributes={"code": code} if code else {}, line=number)
    labels = [f"{kind}:{cells[1]}" for kind in "DP" for _, cells in mine[kind][1]]
    return draft.document(labels=dict.fromkeys(labels))


FORMAT = Codiesp()
