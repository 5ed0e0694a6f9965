"""Hallmarks of Cancer: `text/PMID.txt`, a sentence a line, and `labels/PMID.txt`, each sentence's labels after a "<".

A sentence's labels are spans over the sentence; the document's labels are all of them, each once, in order. Labels
are full paths (`Resisting cell death--Apoptosis`) without the "--" that ends some of them; the top level is what
stands before the first "--".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from osler.formats.base import Loss, Once, Problems, strict_unless
from osler.formats.output import DISCONTINUOUS, LABELS, OutputFolder, only_documents, unheld
from osler.formats.sources import Source, SourceTree, opened
from osler.text.document import Document, Record, Span


@dataclass(frozen=True)
class Hoc:
    """Sentences and labels in two folders."""

    name: str = "hoc"
    description: str = "Hallmarks of Cancer: text/ and labels/, a sentence a line"
    suffixes: tuple[str, ...] = (".txt",)
    layout: Literal["file", "folder"] = "folder"

    def detect(self, source: Source) -> bool:
        """Whether there are label files."""
        with opened(source) as tree:
            names = tree.names("labels/*.txt", "*/labels/*.txt")
            return any(line.startswith("<") for name in names[:1] for line in tree.head(name, 1))

    def read(self, source: Source, *, problems: Problems | None = None) -> Iterator[Document]:
        """Yield the abstracts in the order of their names."""
        found = strict_unless(problems)
        once = Once(found)
        with opened(source) as tree:
            texts = tree.names("text/*.txt", "*/text/*.txt")
            partners = {name: _swap(name, "text", "labels") for name in texts}
            for name in sorted(set(tree.names("labels/*.txt", "*/labels/*.txt")) - set(partners.values())):
                found.report("missing-text", "the text of these labels is missing", where=tree.where(name))
            for name, labels in partners.items():
                stem = name.rsplit("/", 1)[-1][: -len(".txt")]
                once.check(stem, tree.where(name))
                if labels not in tree:
                    found.report("missing-annotation", "this text has no labels", where=tree.where(name))
                yield _document(tree, stem, name, labels, found)

    def write(self, records: Iterable[Record], path: Path) -> Loss:
        """Write text/ and labels/; a line of the text is a sentence, and only spans over whole lines are labels."""
        losses: Counter[str] = Counter()
        folder = OutputFolder(path, losses)
        for record in records:
            if (document := only_documents(record, losses)) is None:
                continue
            losses.update(unheld(document, {"spans", LABELS, DISCONTINUOUS}))
            stem = folder.stem(document.id)
            slots: list[str] = []
            held: list[Span] = []
            start = 0
            for line in document.text.split("\n"):
                mine = [span for span in document.spans if span.fragments == ((start, start + len(line)),)]
                mine = [span for span in mine if _label(span.label) == span.label and _holdable(span.label)]
                held += mine
                slots.append(" AND".join(span.label for span in mine) or " ")
                start += len(line) + 1
            losses["spans that are not sentences"] += len(document.spans) - len(held)
            losses[LABELS] += len(set(document.labels) ^ {span.label for span in held})
            folder.write(f"text/{stem}.txt", document.text + "\n")
            folder.write(f"labels/{stem}.txt", "".join(f"<{slot}" for slot in slots))
        return Loss(+losses)


def _swap(name: str, old: str, new: str) -> str:
    folder, _, file = name.rpartition("/")
    return f"{folder[: -len(old)]}{new}/{file}"


def _label(raw: str) -> str:
    return raw.strip().removesuffix("--").strip()


def _holdable(label: str) -> bool:
    return bool(label) and "AND" not in label and "<" not in label and "\n" not in label


def _document(tree: SourceTree, stem: str, name: str, labels: str, problems: Problems) -> Document:
    text = tree.text(name).removesuffix("\n")
    slots = tree.text(labels).rstrip("\r\n").split("<")[1:] if labels in tree else []
    lines = text.split("\n")
    if labels in tree and len(slots) != len(lines):
        detail = f"{len(slots)} label slots for {len(lines)} sentences"
        problems.report("malformed-line", detail, where=tree.where(labels, 1))
    spans: list[Span] = []
    start = 0
    for line, slot in zip(lines, slots, strict=False):
        for label in dict.fromkeys(map(_label, slot.split("AND"))):
            if label and line:
                spans.append(Span.at(start, start + len(line), label, id=f"T{len(spans) + 1}"))
        start += len(line) + 1
    return Document(stem, text, tuple(spans), labels=tuple(dict.fromkeys(span.label for span in spans)))


FORMAT = Hoc()
