"""Texts as tokens separated by one space, for formats that count tokens instead of characters.

A document with `tokens = "blanks"` in its meta, set by readers of tokenised corpora, keeps its tokens. Any other text is split
into words and re-spaced, and its spans are moved accordingly. Because this changes the text, it counts as a loss.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from osler.formats.output import RELATIONS, RESPACED
from osler.text.document import Document, Fragment, Span, token_ranges
from osler.text.words import Range, covered


def respaced(document: Document, losses: Counter[str], *, empty_lines: bool) -> Document:
    """Put one space between the tokens of each line and widen spans to token edges. Lines are kept."""
    tokens = token_ranges(document)
    parts: list[str] = []
    moved: list[Range] = []
    position = previous = 0
    for start, end in tokens:
        breaks = document.text.count("\n", previous, start)
        gap = "\n" * breaks if empty_lines else "\n" * min(breaks, 1 if parts else 0)
        gap = gap or (" " if parts else "")
        parts += (gap, document.text[start:end])
        moved.append((position + len(gap), position + len(gap) + end - start))
        position, previous = moved[-1][1], end
    if empty_lines:
        parts.append("\n" * document.text.count("\n", previous))
    text = "".join(parts)
    if text == document.text and all(_on_edges(span, tokens) for span in document.spans):
        return document
    losses[RESPACED] += text != document.text
    spans = [_moved(span, tokens, moved, losses) for span in document.spans]
    kept = tuple(span for span in spans if span is not None)
    ids = {span.id for span in kept}
    relations = tuple(r for r in document.relations if r.head in ids and r.tail in ids)
    losses[RELATIONS] += len(document.relations) - len(relations)
    return replace(document, text=text, spans=kept, relations=relations)


def _on_edges(span: Span, tokens: list[Range]) -> bool:
    for start, end in span.fragments:
        place = covered(tokens, start, end)
        if not place or (tokens[place[0]][0], tokens[place[-1]][1]) != (start, end):
            return False
    return True


def _moved(span: Span, tokens: list[Range], moved: list[Range], losses: Counter[str]) -> Span | None:
    """Return the span at the new offsets of the tokens it touches, or None if it touches none."""
    fragments: list[Fragment] = []
    last = -1
    for start, end in span.fragments:
        place = covered(tokens, start, end)
        place = range(max(place.start, last + 1), place.stop)
        if place:
            last = place[-1]
            fragments.append((moved[place[0]][0], moved[last][1]))
    if not fragments:
        losses["spans without a word"] += 1
        return None
    if not _on_edges(span, tokens):
        losses["spans widened to word edges"] += 1
    return replace(span, fragments=tuple(fragments))
