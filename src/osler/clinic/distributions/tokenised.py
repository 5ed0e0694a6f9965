"""Notes as the i2b2 challenges of 2010 and 2012 give them: one sentence or heading a line, one blank between tokens."""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import pairwise

from osler.clinic.distributions.rewriting import Edit, edited
from osler.formats.tokens import TOKENS
from osler.text.document import Document
from osler.text.sentences import sentences
from osler.text.words import Range

_TOKEN = re.compile(
    r"[^\W\d_](?:\.[^\W\d_])+\.?"  # b.i.d.
    r"|(?:Dr|Mr|Mrs|Ms|St|vs)\."
    r"|\w+(?:[-/&'.,:%]\w+)*%?"  # 09/07/2015, x-ray, H&P, 1,200
    r"|\S",
)


def tokenised(document: Document) -> Document:
    """The note with its text cut and its gold moved along; a token ends wherever a mention does, no mention is broken in two lines."""
    text = document.text
    edges = sorted({edge for span in document.spans for piece in span.fragments for edge in piece})
    inside = [(span.start, span.end) for span in document.spans]
    firsts = {start for start, _ in sentences(text, "en")}
    tokens = [piece for match in _TOKEN.finditer(text) for piece in _cut(match.span(), edges)]
    edits: list[Edit] = [(0, tokens[0][0], "")] if tokens[0][0] else []
    for (_, end), (start, _) in pairwise(tokens):
        broken = start in firsts and not any(first < start < last for first, last in inside)
        gap = "\n" if broken else " "
        if text[end:start] != gap:
            edits.append((end, start, gap))
    end = tokens[-1][1]
    if text[end:] != "\n":
        edits.append((end, len(text), "\n"))
    return edited(document, edits).with_(meta=TOKENS)


def same_line(document: Document, first: str, second: str) -> bool:
    """Whether two spans stand in one line."""
    spans = document.span(first), document.span(second)
    return "\n" not in document.text[min(s.start for s in spans) : max(s.end for s in spans)]


def _cut(token: Range, edges: list[int]) -> list[Range]:
    """A token, in pieces where mentions begin or end inside it."""
    start, end = token
    places = edges[bisect_left(edges, start + 1) : bisect_left(edges, end)]
    return list(pairwise([start, *places, end]))
