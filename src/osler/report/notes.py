"""Documents as HTML: the unaltered text with every mention marked, and the relations listed below.

Mentions may nest, cross and be discontinuous. HTML elements can only nest, so a mention that crosses the edge of another is
split there into segments that are drawn as if joined. Label names come from the style sheet, so that text copied from the page
is exactly the text of the document.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from osler.report.colours import Colour
from osler.report.html import render
from osler.text.document import Document

# Attributes that change the meaning of a mention are shown next to its label, unless they have this default value.
# All others appear only in the tooltip.
_DEFAULTS = {"assertion": "present", "modality": "FACTUAL", "polarity": "POS"}
_HOLDS = "yes"
"""Value of a boolean attribute such as `negated`, which is shown by name only."""
Segment = dict[str, object]
"""A part of a mention in one HTML element, as note.html expects it."""


def note_html(
    document: Document,
    colours: Mapping[str, Colour],
    *,
    caption: str = "",
    name: str = "note",
    shown: Collection[str] = (),
) -> str:
    """Return a document as an HTML section for `Page`. `name` prefixes its anchors and must be unique on the page.

    Values of the attributes in `shown` are displayed next to a mention's label.
    """
    counts = Counter(span.label for span in document.spans)
    return render(
        "note.html",
        name=name,
        caption=caption,
        tokens=list(_tokens(document, colours, name, shown)),
        legend=[(label, colours[label], counts[label]) for label in sorted(counts)],
        links=_relations(document, colours, name),
        labels=document.labels,
        value=None if document.value is None else f"{document.value:g}",
    )


def note_css(document: Document, name: str) -> str:
    """Return CSS rules that highlight both arguments of a relation on hover and keyboard focus."""
    place = {span.id: index for index, span in enumerate(document.spans)}
    return "".join(
        f"#{name}:has(#{name}-r{number}:is(:hover,:focus-within,:target)) "
        f":is(.{name}-s{place[relation.head]},.{name}-s{place[relation.tail]})"
        "{outline:2px solid var(--accent);outline-offset:1px}\n"
        for number, relation in enumerate(document.relations, 1)
    )


def _tokens(
    document: Document, colours: Mapping[str, Colour], name: str, shown: Collection[str]
) -> Iterator[tuple[str, str | Segment]]:
    """Yield ("text", text), and ("open", segment) or ("close", segment) where mentions start and end."""
    fragments = sorted(
        (
            (start, end, index, part)
            for index, span in enumerate(document.spans)
            for part, (start, end) in enumerate(span.fragments)
        ),
        key=lambda fragment: (fragment[0], -fragment[1], fragment[2]),
    )
    ends = [end for _, end, _, _ in fragments]
    relations: dict[str, list[int]] = {}
    for number, relation in enumerate(document.relations, 1):
        for argument in dict.fromkeys((relation.head, relation.tail)):
            relations.setdefault(argument, []).append(number)

    def segment(fragment: int, *, first: bool, last: bool) -> Segment:
        _, _, index, part = fragments[fragment]
        span = document.spans[index]
        parts = len(span.fragments)
        values = (
            k if v == _HOLDS else v
            for k, v in span.attributes.items()
            if v == _HOLDS or k in shown or (k in _DEFAULTS and v != _DEFAULTS[k])
        )
        chip = " · ".join([span.label, *values]) + (f" {part + 1}/{parts}" if parts > 1 else "")
        title = [span.label, *(f"{key}: {value}" for key, value in span.attributes.items())]
        title += [] if span.score is None else [f"score {span.score:.2f}"]
        return {
            "anchor": f"{name}-s{index}",
            "span": span,
            "colour": colours[span.label],
            "chip": chip if last else "",
            "title": " · ".join(title),
            "named": first and part == 0,  # the first segment has the anchor as its id
            "first": first,
            "last": last,
            "relations": relations.get(span.id, []) if last and part == parts - 1 else [],
        }

    starting: dict[int, list[int]] = {}
    for fragment, (start, *_) in enumerate(fragments):
        starting.setdefault(start, []).append(fragment)
    borders = sorted({0, len(document.text), *starting, *ends})
    open_fragments: list[int] = []
    segments: dict[int, Segment] = {}
    for here, after in zip(borders, [*borders[1:], len(document.text)], strict=True):
        # Close everything up to the outermost fragment that ends here, then reopen the inner ones that continue.
        reopened: list[int] = []
        depth = next((depth for depth, fragment in enumerate(open_fragments) if ends[fragment] == here), None)
        if depth is not None:
            for fragment in reversed(open_fragments[depth:]):
                yield "close", segments[fragment]
                if ends[fragment] > here:
                    reopened.append(fragment)
            del open_fragments[depth:]
        for fragment in sorted([*reopened, *starting.get(here, ())], key=lambda fragment: (-ends[fragment], fragment)):
            stop = min([ends[fragment], *(ends[other] for other in open_fragments)])
            segments[fragment] = segment(fragment, first=fragment not in segments, last=stop == ends[fragment])
            open_fragments.append(fragment)
            yield "open", segments[fragment]
        if here < after:
            yield "text", document.text[here:after]


def _relations(document: Document, colours: Mapping[str, Colour], name: str) -> list[dict[str, object]]:
    """Return the relations listed below the text."""
    place = {span.id: index for index, span in enumerate(document.spans)}

    def argument(span_id: str) -> dict[str, object]:
        span = document.spans[place[span_id]]
        text = " … ".join(" ".join(document.text[start:end].split()) for start, end in span.fragments)
        return {"anchor": f"{name}-s{place[span_id]}", "text": text, "label": span.label, "colour": colours[span.label]}

    return [
        {
            "anchor": f"{name}-r{number}",
            "number": number,
            "label": relation.label,
            "head": argument(relation.head),
            "tail": argument(relation.tail),
            "title": "" if relation.score is None else f"score {relation.score:.2f}",
        }
        for number, relation in enumerate(document.relations, 1)
    ]
