"""Hallmarks of Cancer: `text/PMID.txt` with one sentence per line, `labels/PMID.txt` with "<" and labels for each.

The labels of a sentence are spans over the sentence; the document's labels are all of them, without repetition. Labels
are full paths (`Resisting cell death--Apoptosis`) without the "--" that ends some of them; the top level is the part
before the first "--".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from osler.formats.base import Format, SourceReading
from osler.formats.draft import file_stem
from osler.formats.output import (
    DISCONTINUOUS,
    LABELS,
    RENAMED,
    SPANS,
    OutputFolder,
    documents,
    renumbered,
    spans_by_line,
)
from osler.formats.sources import SourceTree
from osler.text.document import Document, Record, Span
from osler.text.words import line_ranges

_LABEL_FILES = ("labels/*.txt", "*/labels/*.txt")


@dataclass(frozen=True)
class Hoc(Format):
    """Sentences and labels in two folders."""

    def _detect(self, tree: SourceTree) -> bool:
        return any(line.startswith("<") for name in tree.names(*_LABEL_FILES)[:1] for line in tree.head(name, 1))

    def _read(self, reading: SourceReading) -> Iterator[Document]:
        tree = reading.tree
        partners = {}
        for name in tree.names("text/*.txt", "*/text/*.txt"):
            folder, _, file = name.rpartition("/")
            partners[name] = f"{folder[: -len('text')]}labels/{file}"
        for name in sorted(set(tree.names(*_LABEL_FILES)) - set(partners.values())):
            reading.report("missing-text", "the text of these labels is missing", name)
        for name, labels in partners.items():
            stem = file_stem(name, ".txt")
            reading.check_new(stem, name)
            if labels not in tree:
                reading.report("missing-annotation", "this text has no labels", name)
            yield _document(reading, stem, name, labels)

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        """Write each line of a text as a sentence. Only spans that cover complete lines become labels."""
        folder = OutputFolder(path, losses)
        for document in documents(records, losses, holds={SPANS, LABELS, DISCONTINUOUS}):
            stem = folder.stem(document.id)
            slots: list[str] = []
            held: list[Span] = []
            lines = line_ranges(document.text)
            for line, inside in zip(lines, spans_by_line(document.spans, lines), strict=True):
                mine = [span for span in inside if span.fragments == (line,)]
                mine = [span for span in mine if _label(span.label) == span.label and _holdable(span.label)]
                held += mine
                slots.append(" AND".join(span.label for span in mine) or " ")
            losses[RENAMED] += renumbered(held)
            losses["spans that are not sentences"] += len(document.spans) - len(held)
            losses[LABELS] += len(set(document.labels) ^ {span.label for span in held})
            folder.write(f"text/{stem}.txt", document.text + "\n")
            folder.write(f"labels/{stem}.txt", "".join(f"<{slot}" for slot in slots))


def _label(raw: str) -> str:
    return raw.strip().removesuffix("--").strip()


def _holdable(label: str) -> bool:
    return bool(label) and "AND" not in label and "<" not in label and "\n" not in label


def _document(reading: SourceReading, stem: str, name: str, labels: str) -> Document:
    tree = reading.tree
    text = tree.text(name).removesuffix("\n")
    slots = tree.text(labels).rstrip("\r\n").split("<")[1:] if labels in tree else []
    sentences = line_ranges(text)
    if labels in tree and len(slots) != len(sentences):
        reading.report("malformed-line", f"{len(slots)} label slots for {len(sentences)} sentences", labels, 1)
    spans: list[Span] = []
    for (start, end), slot in zip(sentences, slots, strict=False):
        for label in dict.fromkeys(map(_label, slot.split("AND"))):
            if label and start < end:
                spans.append(Span.at(start, end, label, id=f"T{len(spans) + 1}"))
    return Document(stem, text, tuple(spans), labels=tuple(dict.fromkeys(span.label for span in spans)))


FORMAT = Hoc("hoc", "Hallmarks of Cancer: text/ and labels/, one sentence per line", (".txt",), "folder")
