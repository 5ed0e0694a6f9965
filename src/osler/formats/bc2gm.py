"""BioCreative II gene mention: sentences in `*.in`, mentions in `GENE.eval`, accepted alternatives in `ALTGENE.eval`.

`id|start end|mention`: offsets count characters without blanks, the end included. Every mention is a GENE; with
`alternatives` the other accepted boundaries are read as ALTGENE.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from osler.core.errors import InputError
from osler.formats.base import Loss, Once, Problems, strict_unless
from osler.formats.draft import Draft
from osler.formats.output import DISCONTINUOUS, RENAMED, flattened, only_documents, output_file, unheld
from osler.formats.sources import Source, SourceTree, opened
from osler.text.document import Document, Record

_LINE = re.compile(r"([^|]*)\|(\d+) (\d+)\|(.*)")
_Mentions = dict[str, list[tuple[int, int, int, str]]]


@dataclass(frozen=True)
class Bc2gm:
    """Sentence and mention files."""

    name: str = "bc2gm"
    description: str = "BioCreative II gene mention: .in and .eval, offsets without blanks"
    suffixes: tuple[str, ...] = (".in", ".eval")
    layout: Literal["file", "folder"] = "folder"
    alternatives: bool = False

    def detect(self, source: Source) -> bool:
        """Whether there are sentences and mentions."""
        with opened(source) as tree:
            return bool(tree.names("*.in")) and bool(tree.names("*gene.eval"))

    def read(self, source: Source, *, problems: Problems | None = None) -> Iterator[Document]:
        """Yield the sentences in file order."""
        found = strict_unless(problems)
        once = Once(found)
        with opened(source) as tree:
            for name in tree.names("*.in"):
                folder = name.rpartition("/")[0]
                tables = {}
                for label in ["GENE", "ALTGENE"][: 2 if self.alternatives else 1]:
                    table = f"{folder}/{label}.eval" if folder else f"{label}.eval"
                    if table not in tree:
                        fix = "Put both files into one folder"
                        raise InputError("the file of mentions is missing", where=tree.where(table), fix=fix)
                    tables[label] = (table, _mentions(tree, table, found))
                for number, line in tree.lines(name):
                    if line:
                        identifier, _, text = line.partition(" ")
                        once.check(identifier, tree.where(name, number))
                        yield _document(identifier, text, tables, tree, found)
                for table, left in tables.values():
                    for mentions in left.values():
                        place = tree.where(table, mentions[0][0])
                        found.report("missing-text", "a mention belongs to no sentence", where=place)

    def write(self, records: Iterable[Record], path: Path) -> Loss:
        """Write a folder with the sentences and GENE.eval."""
        losses: Counter[str] = Counter()
        with output_file(path / f"{path.name}.in") as sentences, output_file(path / "GENE.eval") as mentions:
            for record in records:
                if (document := only_documents(record, losses)) is None:
                    continue
                losses.update(unheld(document, {"spans", DISCONTINUOUS}))
                name = re.sub(r"[|\s]+", "_", document.id) or "_"
                losses[RENAMED] += name != document.id
                text = flattened(document.text, "\n\r", losses)
                sentences.write(f"{name} {text}\n".encode())
                for start, end in _places(document, text, losses):
                    first, last = (offset - text.count(" ", 0, offset) for offset in (start, end))
                    mentions.write(f"{name}|{first} {last - 1}|{text[start:end]}\n".encode())
        return Loss(+losses)


def _mentions(tree: SourceTree, table: str, problems: Problems) -> _Mentions:
    found: _Mentions = defaultdict(list)
    for number, line in tree.lines(table):
        match = _LINE.fullmatch(line)
        if match:
            found[match[1]].append((number, int(match[2]), int(match[3]), match[4]))
        elif line.strip():
            problems.report("malformed-line", "not id|start end|mention", where=tree.where(table, number))
    return found


def _document(
    identifier: str, text: str, tables: dict[str, tuple[str, _Mentions]], tree: SourceTree, problems: Problems
) -> Document:
    places = [offset for offset, character in enumerate(text) if character != " "]
    table = ""
    draft = Draft(identifier, text, problems, lambda line: tree.where(table, line))
    for label, (table, mentions) in tables.items():  # noqa: B007 - read by the messages of the draft
        for number, first, last, shown in mentions.pop(identifier, []):
            # A place beyond the sentence becomes one beyond the text, which the draft reports.
            inside = first <= last < len(places)
            edge = (places[first], places[last] + 1) if inside else (first, len(text) + 1)
            draft.span((edge,), label, expected=shown, line=number)
    return draft.document()


def _places(document: Document, text: str, losses: Counter[str]) -> Iterator[tuple[int, int]]:
    for span in document.spans:
        shown = text[span.start : span.end]
        if span.discontinuous:
            losses[DISCONTINUOUS] += 1
        elif not shown.strip(" "):
            losses["spans of blanks"] += 1
        else:
            losses["labels rewritten"] += span.label != "GENE"
            start, end = len(shown) - len(shown.lstrip(" ")), len(shown.rstrip(" "))
            losses["spans trimmed of blanks"] += shown != shown[start:end]
            yield span.start + start, span.start + end


FORMAT = Bc2gm()
