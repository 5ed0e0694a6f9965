"""A document as HTML: its text, unaltered, with every mention marked, and its relations listed beneath.

Mentions may nest, cross and be discontinuous. HTML elements can only nest, so a mention that crosses another's border
is cut into pieces there; the pieces look joined. Label names are drawn by the style sheet, not written into the text:
what one copies from the page is the text of the document.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from osler.report.colours import Colour, label_colours
from osler.report.html import render
from osler.text.document import Document, Span

# Attributes that change what a mention means stand beside its label, unless they have the value that goes without
# saying; all others are in the tooltip.
_UNSAID = {"assertion": "present", "modality": "FACTUAL", "polarity": "POS"}


@dataclass(frozen=True, slots=True)
class NoteSegment:
    """A run of characters of one mention, as one element; the first of a mention bears its name as an anchor."""

    anchor: str
    span: Span
    colour: Colour
    chip: str
    title: str
    named: bool
    first: bool
    last: bool
    relations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Token:
    """A step through the text: some characters, or the opening or closing of a piece."""

    text: str = ""
    opens: NoteSegment | None = None
    closes: NoteSegment | None = None


@dataclass(frozen=True, slots=True)
class Argument:
    """One end of a relation in the list beneath the text."""

    anchor: str
    text: str
    label: str
    colour: Colour


@dataclass(frozen=True, slots=True)
class Link:
    """One relation in the list beneath the text."""

    anchor: str
    number: int
    label: str
    head: Argument
    tail: Argument
    title: str


def note_html(
    document: Document,
    colours: Mapping[str, Colour] | None = None,
    *,
    caption: str = "",
    name: str = "note",
    beside: Collection[str] = (),
) -> str:
    """One note as an HTML section for `Page`; `name` starts every anchor in it and must be unique on the page.

    The values of the attributes named in `beside` stand beside a mention's label.
    """
    shades = colours if colours is not None else label_colours(span.label for span in document.spans)
    counts = Counter(span.label for span in document.spans)
    return render(
        "note.html",
        name=name,
        caption=caption,
        tokens=list(tokens(document, shades, name, beside)),
        legend=[(label, shades[label], counts[label]) for label in sorted(counts)],
        links=links(document, shades, name),
        labels=document.labels,
        value=None if document.value is None else f"{document.value:g}",
    )


def note_css(document: Document, name: str) -> str:
    """Rules that light up both arguments while the pointer, or the keyboard, is on a relation."""
    place = {span.id: index for index, span in enumerate(document.spans)}
    return "".join(
        f"#{name}:has(#{name}-r{number}:is(:hover,:focus-within,:target)) "
        f":is(.{name}-s{place[relation.head]},.{name}-s{place[relation.tail]})"
        "{outline:2px solid var(--accent);outline-offset:1px}\n"
        for number, relation in enumerate(document.relations, 1)
    )


def tokens(
    document: Document, colours: Mapping[str, Colour], name: str, beside: Collection[str] = ()
) -> Iterator[Token]:
    """Walk through the text, opening and closing pieces at the borders of mentions."""
    runs = _runs(document)
    numbers = _relation_numbers(document)
    begins: dict[int, list[int]] = {}
    for index, run in enumerate(runs):
        begins.setdefault(run.start, []).append(index)
    borders = sorted({0, len(document.text), *(run.start for run in runs), *(run.end for run in runs)})
    open_runs: list[int] = []
    started: set[int] = set()
    pieces: dict[int, NoteSegment] = {}
    for here, after in zip(borders, [*borders[1:], len(document.text)], strict=True):
        # Close all down to the outermost run that ends here; those above it that go on are opened again.
        ending = [depth for depth, index in enumerate(open_runs) if runs[index].end == here]
        resumed: list[int] = []
        if ending:
            for index in reversed(open_runs[ending[0] :]):
                yield Token(closes=pieces[index])
                if runs[index].end > here:
                    resumed.append(index)
            del open_runs[ending[0] :]
        wanted = sorted([*resumed, *begins.get(here, ())], key=lambda index: (-runs[index].end, index))
        for index in wanted:
            stop = min([runs[index].end, *(runs[other].end for other in open_runs)])
            pieces[index] = _piece(
                runs[index],
                document,
                colours,
                name,
                numbers,
                beside,
                first=index not in started,
                last=stop == runs[index].end,
            )
            started.add(index)
            open_runs.append(index)
            yield Token(opens=pieces[index])
        if here < after:
            yield Token(text=document.text[here:after])


@dataclass(frozen=True, slots=True)
class _Run:
    """One fragment of one mention."""

    start: int
    end: int
    span: int
    part: int


def _runs(document: Document) -> list[_Run]:
    runs = [
        _Run(start, end, index, part)
        for index, span in enumerate(document.spans)
        for part, (start, end) in enumerate(span.fragments)
    ]
    return sorted(runs, key=lambda run: (run.start, -run.end, run.span))


def _relation_numbers(document: Document) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for number, relation in enumerate(document.relations, 1):
        for argument in dict.fromkeys((relation.head, relation.tail)):
            numbers.setdefault(argument, []).append(number)
    return numbers


def _piece(
    run: _Run,
    document: Document,
    colours: Mapping[str, Colour],
    name: str,
    numbers: Mapping[str, list[int]],
    beside: Collection[str],
    *,
    first: bool,
    last: bool,
) -> NoteSegment:
    span = document.spans[run.span]
    parts = len(span.fragments)
    said = (v for k, v in span.attributes.items() if k in beside or (k in _UNSAID and v != _UNSAID[k]))
    chip = " · ".join([span.label, *said])
    if parts > 1:
        chip += f" {run.part + 1}/{parts}"
    whole = last and run.part == parts - 1
    return NoteSegment(
        anchor=f"{name}-s{run.span}",
        span=span,
        colour=colours[span.label],
        chip=chip if last else "",
        title=_title(span),
        named=first and run.part == 0,
        first=first,
        last=last,
        relations=tuple(numbers.get(span.id, ())) if whole else (),
    )


def _title(span: Span) -> str:
    facts = [span.label, *(f"{key}: {value}" for key, value in span.attributes.items())]
    if span.score is not None:
        facts.append(f"score {span.score:.2f}")
    return " · ".join(facts)


def links(document: Document, colours: Mapping[str, Colour], name: str) -> list[Link]:
    """The relations, in their order, with both arguments."""
    place = {span.id: index for index, span in enumerate(document.spans)}

    def argument(span_id: str) -> Argument:
        span = document.spans[place[span_id]]
        text = " … ".join(" ".join(document.text[start:end].split()) for start, end in span.fragments)
        return Argument(f"{name}-s{place[span_id]}", text, span.label, colours[span.label])

    return [
        Link(
            anchor=f"{name}-r{number}",
            number=number,
            label=relation.label,
            head=argument(relation.head),
            tail=argument(relation.tail),
            title="" if relation.score is None else f"score {relation.score:.2f}",
        )
        for number, relation in enumerate(document.relations, 1)
    ]
