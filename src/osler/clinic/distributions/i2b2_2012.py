"""i2b2 2012: events, times and their order, in tokenised text."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from datetime import date
from itertools import pairwise
from pathlib import Path

from osler.clinic.distributions.base import Distribution, Order, Package, Tally, save
from osler.clinic.distributions.clinical import SUMMARIES, clinic_notes
from osler.clinic.distributions.rewriting import edited, relabelled
from osler.clinic.distributions.temporal import date_value, duration_value, frequency_value, whole_date
from osler.clinic.distributions.tokenised import tokenised
from osler.text.document import Document, Relation, Span

_TRAIN = "2012-07-15.original-annotation.release"
_TEST = "2012-08-08.test-data.event-timex-groundtruth"
_OFFICIAL = (190, 120)
_EVENTS = {
    "PROBLEM": "PROBLEM",
    "TEST": "TEST",
    "DRUG": "TREATMENT",
    "PROCEDURE": "TREATMENT",
    "DEPARTMENT": "CLINICAL_DEPT",
    "EVIDENTIAL": "EVIDENTIAL",
    "OCCURRENCE": "OCCURRENCE",
}
_TIMES = frozenset({"DATE", "DURATION", "FREQUENCY"})
_MODALITY = {"possible": "POSSIBLE", "conditional": "CONDITIONAL", "hypothetical": "PROPOSED"}
_ADMITTED = re.compile(r"(?i)adm(?:i\w*)?(?: date)? :? ?$|date of admission : $|admitted on $")
_DISCHARGED = re.compile(
    r"(?i)disch(?:arge\w*)?(?: date)? :? ?$|date of discharge : $|discharged on $|discharge was on $"
)
_COURSE = re.compile(r"(?i)hospital course|clinical course|course in hospital|discharge medications")
_SOMEDAY = date(2010, 1, 1)


def _official(note: Document, number: int) -> Document:
    assertions = {span.id: span.attributes.get("assertion", "present") for span in note.spans}
    kept = relabelled(note, lambda span: span.label if span.label in _EVENTS or span.label in _TIMES else None)
    kept = tokenised(kept)
    # The official texts begin with a line break; in them, quotes stand as entities and count with all their characters.
    quotes = [
        (match.start(), match.end(), "&apos;" if match[0] == "'" else "&quot;")
        for match in re.finditer("['\"]", kept.text)
    ]
    kept = edited(kept, [(0, 0, "\n"), *quotes])
    spans, relations = _Annotator(kept, assertions).annotate()
    return kept.with_(id=str(number), spans=spans, relations=relations, labels=(), value=None)


class _Annotator:
    """Turns the clinic's spans into events, times and links."""

    def __init__(self, note: Document, assertions: dict[str, str]) -> None:
        self.note = note
        self.assertions = assertions
        self.dates = [span for span in note.spans if span.label == "DATE"]
        admission = self._dated(_ADMITTED) or next(iter(self.dates), None)
        self.sections = [("ADMISSION", admission), ("DISCHARGE", self._dated(_DISCHARGED))]
        found = whole_date(self._text(admission)) if admission else None
        self.today = found or _SOMEDAY

    def annotate(self) -> tuple[tuple[Span, ...], tuple[Relation, ...]]:
        """The spans and relations of the official file."""
        events = [
            self._event(place, span) for place, span in enumerate(s for s in self.note.spans if s.label in _EVENTS)
        ]
        timed = [span for span in self.note.spans if span.label in _TIMES]
        times = [self._time(place, span) for place, span in enumerate(timed)]
        days = [
            Span.at(
                span.start,
                span.end,
                name,
                id=f"S{place}",
                attributes={"element": "SECTIME", "dvalue": date_value(self._text(span), self.today)[0]},
            )
            for place, (name, span) in enumerate(self.sections)
            if span is not None
        ]
        return (*events, *times, *days), tuple(self._links(events, times, days))

    def _event(self, place: int, span: Span) -> Span:
        assertion = self.assertions.get(span.id, "present")
        attributes = {
            "element": "EVENT",
            "modality": _MODALITY.get(assertion, "FACTUAL"),
            "polarity": "NEG" if assertion == "absent" else "POS",
        }
        # An event is one stretch of text here: a discontinuous mention is its whole extent, over others if need be.
        return Span.at(span.start, span.end, _EVENTS[span.label], id=f"E{place}", attributes=attributes)

    def _time(self, place: int, span: Span) -> Span:
        surface = self._text(span)
        if span.label == "DATE":
            value, modifier = date_value(surface, self.today)
        else:
            value, modifier = (duration_value if span.label == "DURATION" else frequency_value)(surface)
        attributes = {"element": "TIMEX3", "val": value, "mod": modifier}
        return Span.at(span.start, span.end, span.label, id=f"T{place}", attributes=attributes)

    def _links(self, events: list[Span], times: list[Span], days: list[Span]) -> Iterator[Relation]:
        """Each event to the admission; events and dates of one line to each other."""
        course = _COURSE.search(self.note.text)
        turn = course.start() if course else len(self.note.text)
        lines = [match.start() for match in re.finditer("\n", self.note.text)]
        by_line: dict[int, list[Span]] = {}
        for span in sorted((*events, *times), key=lambda item: item.start):
            by_line.setdefault(bisect_left(lines, span.start), []).append(span)
        links: list[tuple[str, str, str]] = []
        if days and days[0].label == "ADMISSION":
            links += (("BEFORE" if event.start < turn else "AFTER", event.id, days[0].id) for event in events)
        for spans in by_line.values():
            dates = [span for span in spans if span.label == "DATE"]
            happened = [span for span in spans if span.attributes["element"] == "EVENT"]
            links += (("OVERLAP", event.id, day.id) for day in dates[:1] for event in happened)
            links += (("OVERLAP", a.id, b.id) for a, b in pairwise(happened))
        for place, (label, head, tail) in enumerate(links):
            yield Relation(label, head, tail, f"TL{place}")

    def _dated(self, before: re.Pattern[str]) -> Span | None:
        """The date that stands behind such words."""
        text = self.note.text
        return next((span for span in self.dates if before.search(text[max(span.start - 24, 0) : span.start])), None)

    def _text(self, span: Span) -> str:
        return span.text_in(self.note.text)


def _records(notes: Iterable[Document], first: int, step: int) -> Iterator[Document]:
    return (_official(note, first + place * step) for place, note in enumerate(notes))


def _finish(folder: Path) -> None:
    """Write quotes in the `text` attributes as the official files do: the plain character, not the entity's own characters."""
    for path in sorted(folder.glob("*.xml")):
        head, close, tags = path.read_text(encoding="utf-8").partition("]]></TEXT>")
        tags = tags.replace("&amp;apos;", "&apos;").replace("&amp;quot;", "&quot;")
        path.write_text(head + close + tags, encoding="utf-8")


def make(order: Order, folder: Path) -> Tally:
    """Write the training and the test folder."""
    tally = Tally()
    train = clinic_notes(order.n, order.seed, "train", kinds=SUMMARIES)
    test = clinic_notes(order.share(_OFFICIAL[1], _OFFICIAL[0]), order.seed, "test", kinds=SUMMARIES)
    # Numbers have gaps, and those of the test records lie between those of training, as officially.
    save("i2b2_2012", tally.through("train", _records(train, 1, 5)), folder / _TRAIN)
    save("i2b2_2012", tally.through("test", _records(test, 3, 5)), folder / _TEST / "xml")
    for written in (folder / _TRAIN, folder / _TEST / "xml"):
        _finish(written)
    return tally


DISTRIBUTION = Distribution(
    name="i2b2-2012",
    title="i2b2 2012 challenge: events, times and temporal relations",
    format="i2b2_2012",
    splits={"train": (f"*{_TRAIN}/*.xml",), "test": (f"*{_TEST}/*.xml",)},
    packages=tuple(Package(name, f"{name}.tar.gz") for name in (_TRAIN, _TEST)),
    make=make,
)
