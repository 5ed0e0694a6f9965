"""Helpers that stand-off readers share: documents under construction, and files that belong together."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from osler.core.errors import InputError
from osler.formats.base import Problems
from osler.formats.sources import SourceTree
from osler.text.document import Document, Fragment, Relation, Span

Where = Callable[[int | None], str]


def same_text(found: str, expected: str) -> bool:
    """Whether a mention's own text is what stands at its offsets, where white space of any kind and amount is alike."""
    return found == expected or found.split() == expected.split() or html.unescape(found).split() == expected.split()


class Draft:
    """Collects checked spans and relations of one text; `where` turns a line number into a place for messages."""

    def __init__(self, document_id: str, text: str, problems: Problems, where: Where) -> None:
        self.id = document_id
        self.text = text
        self.problems = problems
        self.where = where
        self.spans: dict[str, Span] = {}
        self._relations: dict[str, tuple[Relation, int | None]] = {}

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
        """Add a mention; None where it had to be left out. Without an id it is numbered T1, T2, …"""
        if not label:
            self._report("empty-label", "a mention has no type", line)
            return None
        given = tuple(fragments)
        pieces = tuple(sorted(given))
        if len(pieces) > 1 and any(start == end for start, end in pieces):
            self._report("empty-fragment", "a piece of a discontinuous mention is empty", line)
            pieces = tuple((start, end) for start, end in pieces if start != end)
        edges = [offset for piece in pieces for offset in piece]
        # Sorted and without empty pieces, in-order edges mean that no piece overlaps the next.
        if not pieces or edges != sorted(edges) or edges[0] < 0 or any(start == end for start, end in pieces):
            self._report("bad-span", "the offsets of a mention are empty, negative or overlap", line)
            return None
        if edges[-1] > len(self.text):
            detail = f"a mention ends at {edges[-1]}, the text has {len(self.text)} characters"
            self._report("bad-span", detail, line)
            return None
        span_id = span_id or self._free_id()
        if span_id in self.spans:
            self._report("duplicate-id", "a mention id is used twice in this document", line)
            return None
        span = Span(pieces, label, span_id, attributes=dict(attributes or {}))
        # QUAERO writes the fragments of a few mentions out of order, and their text in that same order.
        if expected is not None and not same(" ".join(self.text[start:end] for start, end in given), expected):
            self._report("text-mismatch", f"the text at {span.start}..{span.end} is not the mention's text", line)
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
        """Add a relation; its arguments may still come, they are checked by `document`."""
        if not label:
            self._report("empty-label", "a relation has no type", line)
            label = "untyped"
        relation_id = relation_id or f"R{len(self._relations) + 1}"
        if relation_id in self._relations:
            self._report("duplicate-id", "a relation id is used twice in this document", line)
            return
        self._relations[relation_id] = (
            Relation(label, head, tail, relation_id, attributes=dict(attributes or {})),
            line,
        )

    def relation_ids(self) -> Sequence[str]:
        """The ids of the relations so far."""
        return list(self._relations)

    def dangling(self, line: int | None) -> None:
        """Report something that points to a mention that is not there."""
        self._report("dangling-reference", "this line points to a mention that does not exist", line)

    def document(
        self,
        *,
        labels: Iterable[str] = (),
        meta: Mapping[str, str] | None = None,
        relation_attributes: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Document:
        """The finished document: relations whose arguments do not exist are reported and left out."""
        relations = []
        for relation, line in self._relations.values():
            if relation.head not in self.spans or relation.tail not in self.spans:
                self.dangling(line)
                continue
            more = (relation_attributes or {}).get(relation.id)
            if more:
                merged = {**relation.attributes, **more}
                relation = Relation(relation.label, relation.head, relation.tail, relation.id, attributes=merged)
            relations.append(relation)
        spans = tuple(self.spans.values())
        return Document(self.id, self.text, spans, tuple(relations), tuple(labels), meta=dict(meta or {}))

    def _free_id(self) -> str:
        number = len(self.spans) + 1
        while f"T{number}" in self.spans:
            number += 1
        return f"T{number}"

    def _report(self, kind: str, detail: str, line: int | None) -> None:
        self.problems.report(kind, detail, where=self.where(line))  # type: ignore[arg-type]


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def pair_files(
    tree: SourceTree, text_suffix: str, annotation_suffix: str, problems: Problems
) -> Iterator[tuple[str, str | None]]:
    """Each text with its annotation file, in name order.

    Files of one folder and stem belong together; one without a partner there takes the file of the same name elsewhere,
    where there is exactly one. A text whose folder has no annotated text at all (a README) is not a document.
    """
    texts = {name[: -len(text_suffix)]: name for name in tree if name.lower().endswith(text_suffix)}
    annotations = {name[: -len(annotation_suffix)]: name for name in tree if name.lower().endswith(annotation_suffix)}
    if not annotations:
        raise InputError(
            f"no {annotation_suffix} file here",
            where=tree.root,
            fix=f"Give the folder with the {annotation_suffix} files",
        )
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
            problems.report("missing-text", detail, where=tree.where(name), fix="Give a folder that has both")
    annotated = {_folder(name) for name in pairs}
    for name in sorted(texts.values()):
        partner = pairs.get(name)
        if partner is None:
            if _folder(name) not in annotated:
                continue
            detail = f"this text has no {annotation_suffix} file"
            fix = "Add it (empty where nothing is annotated) or take the text out of the folder"
            problems.report("missing-annotation", detail, where=tree.where(name), fix=fix)
        yield name, partner
