"""Edit the text of a document and move its annotations along; tokenise and de-identify clinic notes."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from itertools import accumulate, pairwise

from osler.clinic.labels import PHI_LABELS
from osler.clinic.lexicon import table
from osler.text.document import TOKENS, Document, Fragment, Relation, Span
from osler.text.sentences import sentences
from osler.text.words import Range

Edit = tuple[int, int, str]
"""A half-open range of the text and its replacement."""

_TOKEN = re.compile(
    r"[^\W\d_](?:\.[^\W\d_])+\.?"  # b.i.d.
    r"|(?:Dr|Mr|Mrs|Ms|St|vs)\."
    r"|\w+(?:[-/&'.,:%]\w+)*%?"  # 09/07/2015, x-ray, H&P, 1,200
    r"|\S",
)
_YEARS_AHEAD = 100
_IDENTIFIERS = frozenset(PHI_LABELS) - {"AGE", "PROFESSION", "USERNAME"}
"""PHI that MIMIC takes out of a note; it keeps the rest or has no placeholder for it."""


def edited(document: Document, edits: Sequence[Edit]) -> Document:
    """Apply edits, which are in text order and do not overlap; a span that loses all its characters is dropped."""
    text = document.text
    ends = [end for _, end, _ in edits]
    grown = list(accumulate((len(new) - (end - start) for start, end, new in edits), initial=0))
    parts: list[str] = []
    position = 0
    for start, end, new in edits:
        parts += (text[position:start], new)
        position = end
    parts.append(text[position:])

    def moved(fragment: Fragment) -> Fragment:
        first, last = fragment
        # Text inserted at a span's edge stays outside it.
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
    return _with_spans(document.with_(text="".join(parts), spans=(), relations=()), spans, document.relations)


def relabelled(
    document: Document, label: Callable[[Span], str | None], keep: Callable[[Relation], bool] = lambda _: True
) -> Document:
    """Rename labels and drop attributes; a span whose new label is None is dropped together with its relations."""
    renamed = ((span, label(span)) for span in document.spans)
    spans = [replace(span, label=name, attributes={}) for span, name in renamed if name is not None]
    return _with_spans(document, spans, [relation for relation in document.relations if keep(relation)])


def _with_spans(document: Document, spans: Sequence[Span], relations: Sequence[Relation]) -> Document:
    ids = {span.id for span in spans}
    kept = tuple(relation for relation in relations if relation.head in ids and relation.tail in ids)
    return document.with_(spans=tuple(spans), relations=kept)


def contiguous(document: Document) -> Document:
    """Make each discontinuous span one stretch; spans of the same label inside the stretch merge with it."""
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


def tokenised(document: Document) -> Document:
    """Put one sentence or heading on each line and one space between tokens, as in i2b2 2010 and 2012.

    A token ends where a mention does, and no mention runs over two lines.
    """
    text = document.text
    edges = sorted({edge for span in document.spans for fragment in span.fragments for edge in fragment})
    firsts = {start for start, _ in sentences(text, "en")}
    tokens: list[Range] = []
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        cuts = edges[bisect_left(edges, start + 1) : bisect_left(edges, end)]
        tokens += pairwise([start, *cuts, end])
    edits: list[Edit] = [(0, tokens[0][0], "")] if tokens[0][0] else []
    for (_, end), (start, _) in pairwise(tokens):
        broken = start in firsts and not any(span.start < start < span.end for span in document.spans)
        gap = "\n" if broken else " "
        if text[end:start] != gap:
            edits.append((end, start, gap))
    end = tokens[-1][1]
    if text[end:] != "\n":
        edits.append((end, len(text), "\n"))
    return edited(document, edits).with_(meta=TOKENS)


def deidentified(note: Document) -> Document:
    """Replace identifiers by placeholders such as `[**Hospital1 18**]`, as in MIMIC, and drop the spans of PHI."""
    edits: list[Edit] = []
    numbers: dict[tuple[str, str], int] = {}
    for span in sorted((span for span in note.spans if span.label in _IDENTIFIERS), key=lambda span: span.start):
        if not edits or span.start >= edits[-1][1]:
            edits.append((span.start, span.end, f"[**{_placeholder(span, note.text, numbers)}**]"))
    clinical = [span for span in note.spans if span.label not in PHI_LABELS]
    return edited(_with_spans(note, clinical, note.relations), edits)


def _placeholder(span: Span, text: str, numbers: dict[tuple[str, str], int]) -> str:
    surface = text[span.start : span.end]
    if span.label != "DATE":
        number = numbers.setdefault((span.label, surface), len(numbers) + 1)
        return str(table("en", "mimic")["placeholders"][span.label].format(100 + 7 * number, number))
    if day := full_date(surface):
        return f"{day.year + _YEARS_AHEAD}-{day.month}-{day.day}"
    if re.fullmatch(r"\d{4}", surface):
        return str(int(surface) + _YEARS_AHEAD)
    if match := re.fullmatch(r"(\d{1,2})/(\d{1,2})", surface):
        return f"{match[1]}-{match[2]}"
    return f"Month (only) {100 + len(surface)}"


def full_date(surface: str) -> date | None:
    """The day that an English mention names with its year; None for any other mention."""
    text, times = " ".join(surface.lower().split()), table("en", "times")
    for pattern in times["dates"]:
        if match := re.fullmatch(pattern, text):
            found = match.groupdict()
            year = int(found["y"]) + (2000 if len(found["y"]) == 2 else 0)
            try:
                month = int(found["m"]) if "m" in found else times["months"].index(found["month"]) + 1
                return date(year, month, int(found["d"]))
            except ValueError:
                return None
    return None
