"""Changing the text of a document while its gold follows: every edit moves the offsets behind it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

from osler.text.document import Document, Fragment, Relation, Span

Edit = tuple[int, int, str]
"""A half-open range of the text and what takes its place."""


def edited(document: Document, edits: Sequence[Edit]) -> Document:
    """The document after edits that are in text order and do not overlap; a span whose every character goes, goes too."""
    text = document.text
    ends = [end for _, end, _ in edits]
    grown = list(accumulate((len(new) - (end - start) for start, end, new in edits), initial=0))
    pieces: list[str] = []
    position = 0
    for start, end, new in edits:
        pieces += (text[position:start], new)
        position = end
    pieces.append(text[position:])

    def moved(fragment: Fragment) -> Fragment:
        first, last = fragment
        # What is put in at a span's edge stays outside it.
        before = bisect_right(ends, first)
        start = first + grown[before]
        if before < len(edits) and edits[before][0] < first:
            start = edits[before][0] + grown[before]
        behind = bisect_right(ends, last)
        while behind and edits[behind - 1][:2] == (last, last):
            behind -= 1
        end = last + grown[behind]
        if behind < len(edits) and edits[behind][0] < last:
            end = edits[behind][0] + grown[behind] + len(edits[behind][2])
        return start, end

    spans = []
    for span in document.spans:
        fragments = tuple(new for new in map(moved, span.fragments) if new[0] < new[1])
        if fragments:
            spans.append(replace(span, fragments=fragments))
    return _with_spans(document.with_(text="".join(pieces), spans=(), relations=()), spans, document.relations)


def relabelled(
    document: Document, label: Callable[[Span], str | None], keep: Callable[[Relation], bool] = lambda _: True
) -> Document:
    """The document with other labels and no attributes; a span whose new label is None goes, and what points to it."""
    spans = []
    for span in document.spans:
        name = label(span)
        if name is not None:
            spans.append(replace(span, label=name, attributes={}))
    relations = [relation for relation in document.relations if keep(relation)]
    return _with_spans(document.with_(spans=(), relations=()), spans, relations)


def contiguous(document: Document) -> Document:
    """Discontinuous spans as one stretch each; a span of the same label inside such a stretch becomes one with it."""
    wide = [replace(s, fragments=((s.start, s.end),)) for s in document.spans if s.discontinuous]
    spans: list[Span] = []
    merged: dict[str, str] = {}
    for span in document.spans:
        owner = next((w for w in wide if w.label == span.label and w.start <= span.start and span.end <= w.end), None)
        if owner is None:
            spans.append(span)
        else:
            merged[span.id] = owner.id
    spans += [span for span in wide if merged[span.id] == span.id]
    relations: dict[tuple[str, str, str], Relation] = {}
    for relation in document.relations:
        head, tail = (merged.get(argument, argument) for argument in (relation.head, relation.tail))
        if head != tail:
            relations.setdefault((relation.label, head, tail), replace(relation, head=head, tail=tail))
    spans.sort(key=lambda span: (span.start, -span.end))
    return document.with_(spans=tuple(spans), relations=tuple(relations.values()))


def _with_spans(document: Document, spans: Sequence[Span], relations: Sequence[Relation]) -> Document:
    ids = {span.id for span in spans}
    kept = tuple(relation for relation in relations if relation.head in ids and relation.tail in ids)
    return document.with_(spans=tuple(spans), relations=kept)
