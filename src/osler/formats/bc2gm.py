"""BioCreative II gene mention: sentences in `*.in`, mentions in `GENE.eval`, accepted alternatives in `ALTGENE.eval`.

`id|start end|mention`: offsets count characters without spaces, and the end is inclusive. Every mention is a GENE; with
`alternatives`, the other accepted boundaries are read as ALTGENE.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from osler.core.errors import InputError
from osler.formats.base import Format, SourceReading
from osler.formats.draft import Draft, Rows, report_leftovers, rows_by_document
from osler.formats.output import RENAMED, SPANS, DocumentNames, documents, flattened, output_file, renumbered
from osler.formats.sources import SourceTree
from osler.text.document import Document, Record

_LINE = re.compile(r"([^|]*)\|(\d+) (\d+)\|(.*)")
_Mention = tuple[str, str, str]


@dataclass(frozen=True)
class Bc2gm(Format):
    """Sentence and mention files."""

    alternatives: bool = False

    def _detect(self, tree: SourceTree) -> bool:
        return bool(tree.names("*.in")) and bool(tree.names("*gene.eval"))

    def _read(self, reading: SourceReading) -> Iterator[Document]:
        tree = reading.tree
        for name in tree.names("*.in"):
            tables = {}
            for label in ["GENE", "ALTGENE"] if self.alternatives else ["GENE"]:
                table = f"{name[: name.rfind('/') + 1]}{label}.eval"
                if table not in tree:
                    fix = "Put both files into one folder"
                    raise InputError("the file of mentions is missing", where=tree.where(table), fix=fix)
                tables[label] = (table, rows_by_document(reading, table, _mention, "not id|start end|mention"))
            for number, line in tree.lines(name):
                if line:
                    identifier, _, text = line.partition(" ")
                    reading.check_new(identifier, name, number)
                    yield _document(reading, identifier, text, tables)
            for table, rows in tables.values():
                report_leftovers(reading, table, rows, "a mention belongs to no sentence")

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        with output_file(path / f"{path.name}.in") as sentences, output_file(path / "GENE.eval") as mentions:
            names = DocumentNames(losses)
            for document in documents(records, losses, holds={SPANS}):
                name = names.name(document.id, re.sub(r"[|\s]+", "_", document.id) or "_")
                losses[RENAMED] += renumbered(span for span in document.spans if not span.discontinuous)
                text = flattened(document.text, "\n\r", losses)
                sentences.write(f"{name} {text}\n".encode())
                blanks = [offset for offset, character in enumerate(text) if character == " "]
                for start, end in _trimmed(document, text, losses):
                    first, last = (offset - bisect_left(blanks, offset) for offset in (start, end))
                    mentions.write(f"{name}|{first} {last - 1}|{text[start:end]}\n".encode())


def _mention(line: str) -> tuple[str, _Mention] | None:
    match = _LINE.fullmatch(line)
    return (match[1], (match[2], match[3], match[4])) if match else None


def _document(
    reading: SourceReading, identifier: str, text: str, tables: dict[str, tuple[str, Rows[_Mention]]]
) -> Document:
    places = [offset for offset, character in enumerate(text) if character != " "]
    draft = Draft(reading, identifier, text, "")
    for label, (table, rows) in tables.items():
        draft.file = table
        for number, (*cells, shown) in rows.pop(identifier, []):
            offsets = draft.numbers(cells, number)
            if offsets is None:
                continue
            first, last = offsets
            # Offsets outside the sentence become offsets outside the text, which the draft reports.
            inside = first <= last < len(places)
            edge = (places[first], places[last] + 1) if inside else (first, len(text) + 1)
            draft.span((edge,), label, expected=shown, line=number)
    return draft.document()


def _trimmed(document: Document, text: str, losses: Counter[str]) -> Iterator[tuple[int, int]]:
    """Yield the offsets of mentions without leading and trailing spaces, which this format cannot address."""
    for span in document.spans:
        shown = text[span.start : span.end]
        if span.discontinuous:
            continue
        if not shown.strip(" "):
            losses["spans of blanks"] += 1
        else:
            losses["labels rewritten"] += span.label != "GENE"
            start, end = len(shown) - len(shown.lstrip(" ")), len(shown.rstrip(" "))
            losses["spans trimmed of blanks"] += shown != shown[start:end]
            yield span.start + start, span.start + end


FORMAT = Bc2gm(
    "bc2gm", "BioCreative II gene mention: .in and .eval, offsets that ignore spaces", (".in", ".eval"), "folder"
)
