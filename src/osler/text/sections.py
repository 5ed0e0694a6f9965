"""Read a very long text in overlapping sections and merge what was found.

Sections bound the memory that one text needs, whatever its length. Neighbours overlap, with a seam near the middle of the
overlap: what begins before it is taken from the section on the left, the rest from the one on the right. A seam is never
inside a mention that either section found, so no mention is cut or found twice. Where it can, it lies between two sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from osler.text.document import Document, Relation, Span
from osler.text.sentences import sentences
from osler.text.words import words


class Section(NamedTuple):
    """Characters `start`..`end` of a text (half open)."""

    start: int
    end: int


def cut_sections(text: str, size: int, overlap: int) -> list[Section]:
    """Sections of at most `size` characters, neighbours sharing `overlap` or a little more; cut between words if possible."""
    overlap = min(overlap, size // 2)  # so that each section ends after the previous one
    found: list[Section] = []
    start = 0
    while len(text) - start > size:
        end = _between_words(text, start + size, size // 8)
        found.append(Section(start, end))
        start = _between_words(text, end - overlap, size // 8)
    return [*found, Section(start, len(text))]


def _between_words(text: str, place: int, room: int) -> int:
    """The last place at or before `place` where a line begins, else a word; `place` itself if none is within `room`."""
    low = place - room
    line = text.rfind("\n", low, place)
    if line >= 0:
        return line + 1
    return next((here + 1 for here in range(place - 1, low - 1, -1) if text[here].isspace()), place)


def join_sections(document: Document, sections: Sequence[Section], found: Sequence[Document]) -> Document:
    """Merge what was found in each section into the document, in offsets of the whole text.

    A relation is kept if both of its mentions are.
    """
    moved = [_moved(part.spans, section.start) for part, section in zip(found, sections, strict=True)]
    borders = [0]
    for number in range(1, len(sections)):
        shared = (sections[number].start, sections[number - 1].end)
        borders.append(_seam(document.text, *shared, [*moved[number - 1], *moved[number]]))
    borders.append(len(document.text))
    spans: list[Span] = []
    relations: list[Relation] = []
    covered = 0  # a mention that covers a complete overlap reaches beyond the seam
    for number, (part, own) in enumerate(zip(found, moved, strict=True)):
        low, high = max(borders[number], covered), borders[number + 1]
        # Ids are unique in a section only.
        kept = {span.id: f"{number} {span.id}" for span in own if low <= span.start < high}
        spans += (replace(span, id=kept[span.id]) for span in own if span.id in kept)
        covered = max([covered, *(span.end for span in own if span.id in kept)])
        relations += (
            replace(relation, head=kept[relation.head], tail=kept[relation.tail])
            for relation in part.relations
            if relation.head in kept and relation.tail in kept
        )
    spans.sort(key=lambda span: (span.start, -span.end, span.label))
    names = {span.id: f"T{number}" for number, span in enumerate(spans, 1)}
    return document.with_(
        spans=tuple(replace(span, id=names[span.id]) for span in spans),
        relations=tuple(
            replace(relation, head=names[relation.head], tail=names[relation.tail], id=f"R{number}")
            for number, relation in enumerate(relations, 1)
        ),
    )


def _moved(spans: Iterable[Span], by: int) -> list[Span]:
    return [span.moved(by) for span in spans]


def _seam(text: str, start: int, end: int, spans: Iterable[Span]) -> int:
    """A place in an overlap that is not inside a mention: where a sentence begins, else a word, near the middle."""
    middle = (start + end) // 2
    mentions = [(span.start, span.end) for span in spans if span.end > start and span.start < end]
    for ranges in (sentences(text[start:end]), words(text[start:end])):
        places = sorted((start + begin for begin, _ in ranges[1:]), key=lambda place: abs(place - middle))
        for place in places:
            if not any(begin < place < stop for begin, stop in mentions):
                return place
    return middle
