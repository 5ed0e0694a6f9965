"""Writes the sections of a note: prose, lists, medications, vital signs and laboratory tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from osler.clinic.case import SIGNS
from osler.clinic.scribe import Scribe
from osler.clinic.slots.studies import lab_name, lab_value

ASIDE_CHANCE = 0.55
_ASIDES = {
    "hpi": "history",
    "subjective": "history",
    "pmh": "history",
    "ros": "history",
    "social": "social",
    "family": "social",
    "exam": "exam",
    "course": "course",
    "labs": "course",
    "plan": "plan",
    "instructions": "plan",
}


def heading(scribe: Scribe, text: str) -> None:
    """Write a heading in the note's style."""
    shape = scribe.style.heading
    abbreviation = len(text) < 5 or "/" in text
    scribe.builder.text(shape.format(upper=text.upper(), title=text if abbreviation else text.capitalize()))


def block(scribe: Scribe, name: str) -> None:
    """Write a header, a letter's frame or a signature."""
    scribe.write(scribe.dice.pick(scribe.lexicon.notes["blocks"][name]))
    scribe.builder.text("\n" if scribe.builder.ends_with("\n") else "\n\n")


def section(scribe: Scribe, name: str) -> None:
    """Write one section under its heading."""
    notes = scribe.lexicon.notes
    heading(scribe, scribe.dice.pick(notes["headings"][name]))
    writer = _WRITERS.get(name)
    if writer is None:
        sentences(scribe, chosen(scribe, name, notes[name]), bulleted=notes[name].get("layout") == "list")
    else:
        writer(scribe)
    scribe.builder.text("\n\n")


def chosen(scribe: Scribe, name: str, entry: dict[str, Any]) -> list[str]:
    """The sentences of one section: an opening, some of its body, perhaps an aside, and how ill the patient is."""
    dice = scribe.dice
    low, high = entry["count"]
    picked = dice.sample(entry["body"], dice.between(low, high))
    aside = _ASIDES.get(name)
    if aside:
        for sentence in dice.sample(scribe.lexicon.notes["asides"][aside], 2):
            if sentence not in scribe.asides and dice.chance(ASIDE_CHANCE):
                scribe.asides.add(sentence)
                picked.insert(dice.between(0, len(picked)), sentence)
    if entry.get("open"):
        picked.insert(0, dice.pick(entry["open"]))
    if "icu" in entry:
        picked.append(dice.pick(entry["icu" if "icu" in scribe.case.signs else "ward"]))
    return picked


def sentences(scribe: Scribe, picked: list[str], *, bulleted: bool) -> None:
    """Write sentences as running text, or one a line."""
    for place, sentence in enumerate(picked):
        if bulleted:
            scribe.builder.text(("\n" if place else "") + scribe.style.bullet.format(n=place + 1))
        elif place:
            scribe.builder.text(" ")
        scribe.write(sentence)


def _history(scribe: Scribe) -> None:
    """The patient's chronic diseases, one a line or in a row."""
    notes, dice = scribe.lexicon.notes, scribe.dice
    bulleted = dice.chance(0.6)
    for place, problem in enumerate(scribe.case.patient.chronic):
        if bulleted:
            scribe.builder.text(("\n" if place else "") + scribe.style.bullet.format(n=place + 1))
        elif place:
            scribe.builder.text("; ")
        scribe.write(dice.pick(notes["pmh"]["line"]), scribe.topic_of(problem))
    picked = chosen(scribe, "pmh", notes["pmh"])
    if picked:
        scribe.builder.text("\n" if bulleted else ". ")
        sentences(scribe, picked, bulleted=False)


def _medications(scribe: Scribe) -> None:
    """A line for each drug the patient takes."""
    notes, dice, case = scribe.lexicon.notes["meds"], scribe.dice, scribe.case
    own = [scribe.topic_of(problem) for problem in (*case.patient.chronic, case.chief)]
    more = [scribe.topic_of(dice.pick(scribe.lexicon.chronic)) for _ in range(dice.between(1, 4))]
    # Only what the patient is known to have may be named as a reason, and nobody has infusions at home.
    listed = {topic.drug.name: (topic, place < len(own)) for place, topic in enumerate((*own, *more))}
    taken = [entry for entry in listed.values() if entry[0].drug.group.ways[0] != "iv"]
    bulleted = dice.chance(0.8)
    for number, (topic, known) in enumerate(taken, start=1):
        if bulleted:
            scribe.builder.text(("\n" if number > 1 else "") + scribe.style.bullet.format(n=number))
        elif number > 1:
            scribe.builder.text(", ")
        scribe.write(dice.pick(notes["lines"]) if known else notes["lines"][0], topic)
    if not taken or dice.chance(0.4):
        if taken:
            scribe.builder.text("\n" if bulleted else ", ")
        scribe.builder.text(scribe.style.bullet.format(n=len(taken) + 1) if bulleted else "")
        scribe.write(dice.pick(notes["asides"]))


def _exam(scribe: Scribe) -> None:
    """Vital signs, what they amount to, and findings."""
    notes, dice = scribe.lexicon.notes, scribe.dice
    scribe.write(dice.pick(notes["exam"]["vitals"]))
    scribe.builder.text("\n")
    signs, words = scribe.case.signs, notes["signs"]
    parts = [dice.pick(words["ill" if len(signs) > 2 else "well"])]
    for sign in SIGNS[:-1]:
        if sign in signs:
            parts.append(dice.pick(words[sign]))
        elif dice.chance(0.35):
            parts.append(dice.pick(words[f"no_{sign}"]))
    scribe.write(", ".join(parts) + ".")
    bulleted = dice.chance(0.5)
    scribe.builder.text("\n" if bulleted else " ")
    picked = chosen(scribe, "exam", notes["exam"])
    for place, sentence in enumerate(picked):
        if place:
            scribe.builder.text("\n" if bulleted else " ")
        scribe.write(sentence)


def _labs(scribe: Scribe) -> None:
    """A table of results, or the same in one line."""
    notes, dice = scribe.lexicon.notes["labs"], scribe.dice
    intro = dice.pick(notes["intro"])
    if intro:
        scribe.write(intro)
        scribe.builder.text("\n")
    labs = dice.sample(scribe.lexicon.labs, dice.between(3, 8))
    if scribe.style.table:
        _table(scribe, notes, labs)
    else:
        units = dice.chance(0.5)
        for place, lab in enumerate(labs):
            scribe.builder.text(", " if place else "")
            scribe.builder.mark(lab_name(scribe, lab), "TEST")
            scribe.builder.text(f" {lab_value(scribe, lab)[0]}{f' {lab.unit}' if units and lab.unit else ''}")
        scribe.builder.text(".")
    picked = chosen(scribe, "labs", {**notes, "count": (0, 2)})
    scribe.builder.text("\n" if picked else "")
    sentences(scribe, picked, bulleted=False)


def _table(scribe: Scribe, notes: dict[str, Any], labs: list[Any]) -> None:
    builder = scribe.builder
    separator = scribe.dice.pick(("  ", " | "))
    widths = (26, 8, 8, 12)
    columns = separator.join(word.ljust(width) for word, width in zip(notes["columns"], widths, strict=True))
    builder.text(columns.rstrip() + "\n")
    for place, lab in enumerate(labs):
        name = lab_name(scribe, lab)
        value, flag = lab_value(scribe, lab)
        builder.text("\n" if place else "")
        builder.mark(name, "TEST")
        bounds = f"{lab.low:.{lab.decimals}f} - {lab.high:.{lab.decimals}f}"
        bounds = bounds.replace(".", ",") if scribe.style.commas else bounds
        mark = ("", notes["high"], notes["low"])[flag]
        cells = (f"{value} {mark}".strip().ljust(8), lab.unit.ljust(8), bounds)
        builder.text(" " * max(widths[0] - len(name), 1) + separator + separator.join(cells))


_WRITERS: dict[str, Callable[[Scribe], None]] = {
    "pmh": _history,
    "home_meds": _medications,
    "discharge_meds": _medications,
    "exam": _exam,
    "labs": _labs,
}
