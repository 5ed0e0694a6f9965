"""Replace passages of a text, and translate offsets between the new text and the old one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from osler.core.errors import InputError
from osler.text.document import Document, Span

Pair = tuple[int, int, int, int]
"""Start and end of a replaced passage in the old text, and of its replacement in the new one."""


@dataclass(frozen=True)
class OffsetMap:
    """Maps offsets between an old and a new text. Holds offsets only, no text."""

    pairs: tuple[Pair, ...]
    """The replaced passages in text order. Between them both texts are equal."""
    old_length: int
    new_length: int

    def to_old(self, start: int, end: int) -> tuple[int, int]:
        """Map a range of the new text to the old one. A replaced passage that it touches is included whole."""
        return self._translate(start, end, self.new_length, back=True)

    def to_new(self, start: int, end: int) -> tuple[int, int]:
        """Map a range of the old text to the new one. A replaced passage that it touches is included whole."""
        return self._translate(start, end, self.old_length, back=False)

    def spans_to_old(self, document: Document, text: str) -> Document:
        """Move annotations of the new text to the old one."""
        return self._project(document, text, back=True)

    def spans_to_new(self, document: Document, text: str) -> Document:
        """Move annotations of the old text to the new one; mentions replaced by nothing are dropped with their relations."""
        return self._project(document, text, back=False)

    def as_lists(self) -> dict[str, object]:
        """Plain data for JSON."""
        return {"old": self.old_length, "new": self.new_length, "pairs": [list(pair) for pair in self.pairs]}

    @classmethod
    def from_lists(cls, old: int, new: int, pairs: Iterable[Sequence[int]]) -> Self:
        return cls(tuple((a, b, c, d) for a, b, c, d in pairs), old, new)

    def _translate(self, start: int, end: int, length: int, *, back: bool) -> tuple[int, int]:
        if not 0 <= start <= end <= length:
            raise InputError(f"{start}..{end} is not a range of a text of {length} characters")
        here, there = (2, 0) if back else (0, 2)
        # An empty range touches no passage, so it keeps its place.
        return self._place(start, here, there, first=True), self._place(end, here, there, first=start == end)

    def _place(self, place: int, here: int, there: int, *, first: bool) -> int:
        """Map one end of a range. Inside a replaced passage, the first end goes to its start and the last to its end."""
        index = bisect_right(self.pairs, place if first else place - 1, key=lambda pair: pair[here]) - 1
        if index < 0:
            return place
        pair = self.pairs[index]
        if place < pair[here + 1] or (not first and place == pair[here + 1]):
            return pair[there] if first else pair[there + 1]
        return place - pair[here + 1] + pair[there + 1]

    def _project(self, document: Document, text: str, *, back: bool) -> Document:
        translate = self.to_old if back else self.to_new
        if len(text) != (self.old_length if back else self.new_length):
            raise InputError("the text does not have the length that the offset map was made for")
        spans = []
        for span in document.spans:
            moved = [translate(start, end) for start, end in span.fragments]
            kept = _joined([fragment for fragment in moved if fragment[0] < fragment[1]])
            if kept:
                spans.append(Span(kept, span.label, span.id, span.score, span.attributes))
        ids = {span.id for span in spans}
        relations = tuple(relation for relation in document.relations if {relation.head, relation.tail} <= ids)
        return document.with_(text=text, spans=tuple(spans), relations=relations)


def _joined(fragments: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Merge fragments that fall into one replaced passage."""
    joined: list[tuple[int, int]] = []
    for start, end in fragments:
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined)


def replace_passages(text: str, passages: Iterable[tuple[int, int, str]]) -> tuple[str, OffsetMap]:
    """Replace disjoint passages, in text order, each by a text of its own; also return the map between both texts."""
    pieces: list[str] = []
    pairs: list[Pair] = []
    done = length = 0
    for start, end, new in passages:
        if not done <= start <= end <= len(text):
            raise InputError(f"passage {start}..{end} overlaps the one before it or lies outside of the text")
        pieces += (text[done:start], new)
        length += start - done
        pairs.append((start, end, length, length + len(new)))
        length += len(new)
        done = end
    pieces.append(text[done:])
    changed = "".join(pieces)
    return changed, OffsetMap(tuple(pairs), len(text), len(changed))
