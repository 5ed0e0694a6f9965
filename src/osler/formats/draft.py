"""Helpers for stand-off readers: documents under construction, and pairing texts with annotation files."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from osler.core.errors import InputError
from osler.formats.base import Defect, SourceReading
from osler.formats.offsets import Counting, GivenMention, fitting, how_to_read
from osler.text.document import Document, Fragment, Relation, Span

_Row = TypeVar("_Row")


def same_text(found: str, expected: str) -> bool:
    """Whether two texts agree up to whitespace and HTML escapes."""
    return found == expected or found.split() == expected.split() or html.unescape(found).split() == expected.split()


class Draft:
    """A document under construction, which checks spans and relations as they are added.

    Line numbers in messages refer to `file`; a reader sets it when it moves on to another file.
    """

    def __init__(self, reading: SourceReading, document_id: str, text: str, file: str) -> None:
        self.id = document_id
        self.text = text
        self.file = file
        self.spans: dict[str, Span] = {}
        self._reading = reading
        self._counting = Counting(text, reading.conventions) if reading.conventions else None
        self._given: list[GivenMention] = []
        self.relations: dict[str, tuple[Relation, int | None]] = {}  # each with its line

    def report(self, kind: Defect, detail: str, line: int | None, *, fix: str | None = None) -> None:
        """Report a defect of the current file."""
        self._reading.report(kind, detail, self.file, line, fix=fix)

    def numbers(self, cells: Iterable[str], line: int | None) -> list[int] | None:
        """Parse offsets of the current file. If one is not a whole number, report it and return None."""
        return self._reading.numbers(cells, self.file, line)

    def dangling(self, line: int | None) -> None:
        """Report a reference to a missing mention."""
        self.report("dangling-reference", "this line refers to a mention that does not exist", line)

    def span(
        self,
        fragments: Iterable[Fragment],
        label: str,
        *,
        span_id: str = "",
        expected: str | None = None,
        attributes: Mapping[str, str] | None = None,
        line: int | None = None,
        same: Callable[[str, str], bool] = same_text,
    ) -> Span | None:
        """Add a mention, or report it and return None if it is unusable. Without an id, it is numbered T1, T2, …"""
        if not label:
            self.report("empty-label", "a mention has no type", line)
            return None
        stated = tuple(fragments)
        given = tuple(self._counting.fragment(*part) for part in stated) if self._counting else stated
        parts = tuple(sorted(given))
        if len(parts) > 1 and any(start == end for start, end in parts):
            self.report("empty-fragment", "a fragment of a discontinuous mention is empty", line)
            parts = tuple((start, end) for start, end in parts if start != end)
        edges = [offset for part in parts for offset in part]
        # Fragments are sorted and not empty, so sorted edges mean that no fragment overlaps the next.
        if not parts or edges != sorted(edges) or edges[0] < 0 or any(start == end for start, end in parts):
            self.report("bad-span", "the offsets of a mention are empty, negative or overlap", line)
            return None
        self._given.append(GivenMention(tuple(part for part in stated if part[0] != part[1]), expected, same))
        if edges[-1] > len(self.text):
            detail = f"a mention ends at {edges[-1]}, the text has {len(self.text)} characters"
            self.report("bad-span", detail, line, fix=self._convention())
            return None
        span_id = span_id or self._free_id()
        if span_id in self.spans:
            self.report("duplicate-id", "a mention id is used twice in this document", line)
            return None
        span = Span(parts, label, span_id, attributes=dict(attributes or {}))
        # QUAERO writes the fragments of a few mentions out of order, and their text in that same order.
        if expected is not None and not same(" ".join(self.text[start:end] for start, end in given), expected):
            detail = f"the text at {span.start}..{span.end} is not the mention's text"
            self.report("text-mismatch", detail, line, fix=self._convention())
        self.spans[span_id] = span
        return span

    def relation(
        self,
        label: str,
        head: str,
        tail: str,
        *,
        relation_id: str = "",
        attributes: Mapping[str, str] | None = None,
        line: int | None = None,
    ) -> None:
        """Add a relation. Its arguments may be added later, as `document` checks them."""
        if not label:
            self.report("empty-label", "a relation has no type", line)
            label = "untyped"
        relation_id = relation_id or f"R{len(self.relations) + 1}"
        if relation_id in self.relations:
            self.report("duplicate-id", "a relation id is used twice in this document", line)
            return
        relation = Relation(label, head, tail, relation_id, attributes=dict(attributes or {}))
        self.relations[relation_id] = (relation, line)

    def document(self, *, labels: Iterable[str] = (), meta: Mapping[str, str] | None = None) -> Document:
        """Return the finished document, without relations whose arguments are missing."""
        relations = []
        for relation, line in self.relations.values():
            if relation.head not in self.spans or relation.tail not in self.spans:
                self.dangling(line)
            else:
                relations.append(relation)
        if self._reading.evidence is not None:
            self._reading.evidence.add(self.text, self._given)
        spans = tuple(self.spans.values())
        return Document(self.id, self.text, spans, tuple(relations), tuple(labels), meta=dict(meta or {}))

    def _convention(self) -> str | None:
        """Return advice for a strict reader: how to read the offsets so that all mentions so far fit."""
        if not self._reading.strict or self._reading.evidence is None:
            return None
        fits = [names for names, count in fitting(self.text, self._given).items() if count == len(self._given)]
        # A single mention can fit in several ways.
        simplest = [names for names in fits if len(names) == len(fits[0])]
        ways = " or ".join(f"offsets = {','.join(names)}" for names in simplest)
        return f"The mentions up to here fit with {ways}. {how_to_read(fits[0])}" if fits else None

    def _free_id(self) -> str:
        number = len(self.spans) + 1
        while f"T{number}" in self.spans:
            number += 1
        return f"T{number}"


Rows = dict[str, list[tuple[int, _Row]]]
"""Rows of an annotation table by document id, each with its line number."""


def rows_by_document(
    reading: SourceReading, table: str, parse: Callable[[str], tuple[str, _Row] | None], malformed: str
) -> Rows[_Row]:
    """Read an annotation table. `parse` returns the document id and row of a line, or None if it is malformed."""
    rows: Rows[_Row] = defaultdict(list)
    for number, line in reading.tree.lines(table):
        if (parsed := parse(line)) is not None:
            rows[parsed[0]].append((number, parsed[1]))
        elif line.strip():
            reading.report("malformed-line", malformed, table, number)
    return rows


def report_leftovers(reading: SourceReading, table: str, rows: Rows[_Row], detail: str) -> None:
    """Report rows without a text, once per document."""
    for left in rows.values():
        reading.report("missing-text", detail, table, left[0][0])


def file_stem(name: str, suffix: str) -> str:
    """Return a file name without folder and suffix."""
    return name.rpartition("/")[2][: -len(suffix)]


def pair_files(reading: SourceReading, annotation_suffix: str) -> Iterator[tuple[str, str | None]]:
    """Yield each .txt file with its annotation file, in name order.

    Files with the same folder and stem belong together. A file without a partner in its folder is paired with the only file of
    that name elsewhere. Texts in a folder without any annotated text (such as a README) are skipped.
    """
    tree = reading.tree
    texts = {name[: -len(".txt")]: name for name in tree if name.lower().endswith(".txt")}
    annotations = {name[: -len(annotation_suffix)]: name for name in tree if name.lower().endswith(annotation_suffix)}
    if not annotations:
        fix = f"Give the folder with the {annotation_suffix} files"
        raise InputError(f"no {annotation_suffix} file found", where=tree.root, fix=fix)
    pairs: dict[str, str] = {texts[stem]: name for stem, name in annotations.items() if stem in texts}
    free: dict[str, list[str]] = defaultdict(list)
    for stem, name in texts.items():
        if name not in pairs:
            free[stem.rpartition("/")[2]].append(name)
    for stem, name in annotations.items():
        if stem in texts:
            continue
        candidates = free.get(stem.rpartition("/")[2], [])
        if len(candidates) == 1 and candidates[0] not in pairs:
            pairs[candidates[0]] = name
        else:
            detail = "the text of this annotation file is missing" if not candidates else "several texts have this name"
            reading.report("missing-text", detail, name, fix="Give a folder that has both files")
    annotated = {name.rpartition("/")[0] for name in pairs}
    for name in sorted(texts.values()):
        partner = pairs.get(name)
        if partner is None:
            if name.rpartition("/")[0] not in annotated:
                continue
            fix = "Add the file (empty if nothing is annotated) or move the text out of the folder"
            reading.report("missing-annotation", f"this text has no {annotation_suffix} file", name, fix=fix)
        yield name, partner
