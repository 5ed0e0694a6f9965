"""i2b2 2012: events, times and their order, in tokenised text."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from datetime import date
from itertools import groupby, pairwise

from osler.clinic.distributions.base import DistributionWriter, edit_tags
from osler.clinic.distributions.rewriting import edited, full_date, relabelled, tokenised
from osler.clinic.labels import Split
from osler.clinic.lexicon import table
from osler.clinic.notes import SUMMARIES, notes
from osler.text.document import Document, Relation, Span

_EVENTS = {"DRUG": "TREATMENT", "PROCEDURE": "TREATMENT", "DEPARTMENT": "CLINICAL_DEPT"}
_EVENTS |= {label: label for label in ("PROBLEM", "TEST", "EVIDENTIAL", "OCCURRENCE")}
_TIMES = frozenset({"DATE", "DURATION", "FREQUENCY"})
_MODALITY = {"possible": "POSSIBLE", "conditional": "CONDITIONAL", "hypothetical": "PROPOSED"}
_SECTION_TIMES = {
    "ADMISSION": r"(?i)adm(?:i\w*)?(?: date)? :? ?$|date of admission : $|admitted on $",
    "DISCHARGE": r"(?i)disch(?:arge\w*)?(?: date)? :? ?$|date of discharge : $|discharged on $|discharge was on $",
}
"""Words before the date of admission and that of discharge."""
_COURSE = re.compile(r"(?i)hospital course|clinical course|course in hospital|discharge medications")
_QUOTES = {"'": "&apos;", '"': "&quot;"}
_SOMEDAY = date(2010, 1, 1)


def _official(note: Document, number: int) -> Document:
    assertions = {span.id: span.attributes.get("assertion", "present") for span in note.spans}
    note = tokenised(relabelled(note, lambda span: span.label if span.label in {*_EVENTS, *_TIMES} else None))
    # Official texts begin with a line break and write quotes as entities; offsets count every character of an entity.
    quotes = [(match.start(), match.end(), _QUOTES[match[0]]) for match in re.finditer("['\"]", note.text)]
    note = edited(note, [(0, 0, "\n"), *quotes])
    text = note.text
    sections = {name: span for name, before in _SECTION_TIMES.items() if (span := _date_after(note, before))}
    dates = (span for span in note.spans if span.label == "DATE")
    if "ADMISSION" not in sections and (first := next(dates, None)):
        sections = {"ADMISSION": first, **sections}
    admitted = sections.get("ADMISSION")
    today = (full_date(admitted.text_in(text)) if admitted else None) or _SOMEDAY

    events, times, days = [], [], []
    # An event is one stretch of text: a discontinuous mention becomes its full extent, even over other events.
    for index, span in enumerate(span for span in note.spans if span.label in _EVENTS):
        assertion = assertions.get(span.id, "present")
        polarity = "NEG" if assertion == "absent" else "POS"
        attributes = {"element": "EVENT", "modality": _MODALITY.get(assertion, "FACTUAL"), "polarity": polarity}
        events.append(Span.at(span.start, span.end, _EVENTS[span.label], id=f"E{index}", attributes=attributes))
    for index, span in enumerate(span for span in note.spans if span.label in _TIMES):
        value, modifier = time_value(span.label, span.text_in(text), today)
        attributes = {"element": "TIMEX3", "val": value, "mod": modifier}
        times.append(Span.at(span.start, span.end, span.label, id=f"T{index}", attributes=attributes))
    for name, span in sections.items():
        attributes = {"element": "SECTIME", "dvalue": time_value("DATE", span.text_in(text), today)[0]}
        index = list(_SECTION_TIMES).index(name)
        days.append(Span.at(span.start, span.end, name, id=f"S{index}", attributes=attributes))
    links = enumerate(_links(text, events, times, days))
    relations = tuple(Relation(label, head, tail, f"TL{index}") for index, (label, head, tail) in links)
    return note.with_(id=str(number), spans=(*events, *times, *days), relations=relations, labels=(), value=None)


def _date_after(note: Document, before: str) -> Span | None:
    """The first date that follows these words."""
    dates = (span for span in note.spans if span.label == "DATE")
    return next((span for span in dates if re.search(before, note.text[max(span.start - 24, 0) : span.start])), None)


def _links(text: str, events: list[Span], times: list[Span], days: list[Span]) -> Iterator[tuple[str, str, str]]:
    """Link each event to the admission, and the events and the first date of each line to each other."""
    if days and days[0].label == "ADMISSION":
        course = _COURSE.search(text)
        turn = course.start() if course else len(text)
        yield from (("BEFORE" if event.start < turn else "AFTER", event.id, days[0].id) for event in events)
    breaks = [match.start() for match in re.finditer("\n", text)]
    in_order = sorted((*events, *times), key=lambda span: span.start)
    for _, line in groupby(in_order, key=lambda span: bisect_left(breaks, span.start)):
        spans = list(line)
        dates = [span for span in spans if span.label == "DATE"]
        happened = [span for span in spans if span.attributes["element"] == "EVENT"]
        yield from (("OVERLAP", event.id, day.id) for day in dates[:1] for event in happened)
        yield from (("OVERLAP", one.id, other.id) for one, other in pairwise(happened))


def time_value(label: str, surface: str, today: date) -> tuple[str, str]:
    """The TIMEX3 value and modifier of a DATE, DURATION or FREQUENCY mention."""
    text = " ".join(surface.lower().split())
    return {"DATE": _date_value, "DURATION": _duration_value, "FREQUENCY": _frequency_value}[label](text, today)


def _date_value(text: str, today: date) -> tuple[str, str]:
    """A date; a missing year is the year of `today`."""
    times = table("en", "times")
    months = {name: number for number, name in enumerate(times["months"], start=1)}
    if day := full_date(text):
        return day.isoformat(), "NA"
    if re.fullmatch(r"\d{4}", text):
        return text, "NA"
    if match := re.fullmatch(r"(?:([a-z]{3})[a-z]* |(\d{1,2})/)(\d{1,2})", text):
        month = months.get(match[1], 0) if match[1] else int(match[2])
        if found := full_date(f"{month}/{match[3]}/{today.year}"):
            return found.isoformat(), "NA"
    if (match := re.fullmatch(r"([a-z]{3})[a-z]*(?: (\d{4}))?", text)) and match[1] in months:
        return f"{match[2] or today.year}-{months[match[1]]:02}", "NA"
    if (match := re.fullmatch(r"([a-z]+) (?:of )?(\d{4})", text)) and match[1] in times["seasons"]:
        return f"{match[2]}-{times['seasons'][match[1]]}", "NA"
    return today.isoformat(), "APPROX"


def _duration_value(text: str, today: date) -> tuple[str, str]:
    times = table("en", "times")
    for match in re.finditer(times["amount"], text):
        number = times["numbers"].index(match[1]) if match[1] in times["numbers"] else match[1]
        if str(number).isdigit():
            return (f"PT{number}H" if match[2] == "hour" else f"P{number}{match[2][0].upper()}"), "NA"
    return "P1D", "APPROX"


def _frequency_value(text: str, today: date) -> tuple[str, str]:
    """How often something is given; once a day if the mention does not say."""
    times = table("en", "times")
    if match := re.search(times["hours"], text):
        return f"RPT{match[1]}H", "NA"
    for value, pattern in times["frequencies"].items():
        if re.search(pattern, text):
            return value, "NA"
    return "RP1D", "NA" if re.search(times["daily"], text) else "APPROX"


def make(writer: DistributionWriter) -> None:
    """Write the training and the test folder."""
    # Numbers have gaps, and test records have numbers between those of training, as in the release.
    train, test = writer.packages
    parts: dict[Split, tuple[int, str]] = {"train": (1, train), "test": (3, f"{test}/xml")}
    for split, (first, path) in parts.items():
        summaries = notes(writer.sizes[split], language="en", seed=writer.seed, split=split, kinds=SUMMARIES)
        writer.save(split, (_official(note, first + 5 * index) for index, note in enumerate(summaries)), path)
        # In attributes, official files escape a quote once.
        edit_tags(writer.folder / path, ("&amp;apos;", "&apos;"), ("&amp;quot;", "&quot;"))
