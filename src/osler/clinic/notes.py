"""Clinical notes and journal abstracts with gold. Note k of a language, seed and split is always the same note.

Contexts are informative on purpose: titles, headings, verbs, units and word endings show what a word is. A small encoder
can learn the tasks from a few hundred notes, but a list of the words seen in training does not solve them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import count, islice
from typing import Any

from osler.clinic.case import SIGNS, draw_style, make_case
from osler.clinic.dice import Dice
from osler.clinic.labels import Language, Split, check_choice
from osler.clinic.lexicon import LabTest, lexicon, table
from osler.clinic.slots import NoteScribe
from osler.text.document import Document

SUMMARIES = frozenset({"discharge summary"})

_OPTIONAL_CHANCE = 0.6
_ASIDE_CHANCE = 0.55
_COLUMNS = (26, 8, 8, 12)
_ABSTRACT_PARTS = (("background", 1, 3), ("methods", 1, 3), ("results", 2, 4), ("conclusions", 1, 2))
_ON_TOPIC = 0.75


def notes(n: int, *, language: Language, seed: int, split: Split, kinds: Collection[str] = ()) -> Iterator[Document]:
    """The first `n` notes (of these kinds). The first notes do not depend on how many follow."""
    check_choice(language, split)
    every = (note(number, language=language, seed=seed, split=split) for number in count())
    return islice((made for made in every if not kinds or made.meta["kind"] in kinds), n)


def note(number: int, *, language: Language, seed: int, split: Split) -> Document:
    """Note `number`: a text with entities, PHI and relations, conditions as labels and severity as value."""
    words = lexicon(language, split)
    dice = Dice(seed, "note", language, split, number)
    case = make_case(words, seed, number, dice)
    style = draw_style(words, dice)
    scribe = NoteScribe(case, dice, style)
    scribe.title = dice.pick(case.kind["title"])
    for name in case.kind["sections"]:
        if name.endswith("?") and not dice.chance(_OPTIONAL_CHANCE):
            continue
        name = name.removesuffix("?")
        if name in words.notes["blocks"]:
            scribe.write(dice.pick(words.notes["blocks"][name]))
            scribe.builder.text("\n" if scribe.builder.ends_with("\n") else "\n\n")
        else:
            _section(scribe, name)
        if name in ("course", "plan") and style.pages:
            _daily_entries(scribe, style.pages)
    meta = {
        "language": language,
        "split": split,
        "kind": case.kind["name"],
        "specialty": case.specialty,
        "patient": case.patient.key,
    }
    return scribe.builder.build(
        f"{language}-{split}-{number:06}",
        labels=tuple(sorted(scribe.labels)),
        value=float(len(case.signs)),
        meta=meta,
        width=style.width,
        accents="unaccented" not in style.habits,
        capitals="capitals" in style.habits,
    )


def abstracts(n: int, *, language: Language, seed: int, split: Split) -> Iterator[Document]:
    """The first `n` abstracts; abstract k does not depend on n."""
    check_choice(language, split)
    return (abstract(number, language=language, seed=seed, split=split) for number in range(n))


def abstract(number: int, *, language: Language, seed: int, split: Split) -> Document:
    """Abstract `number`: the gold of a note without PHI, and many drug-drug relations in little text."""
    words, texts = lexicon(language, split), table(language, "abstracts")
    dice = Dice(seed, "abstract", language, split, number)
    case = make_case(words, seed, number, dice)
    # Journals are proofread: no typos, capitals, dropped accents or wrapped lines.
    style = draw_style(words, dice)
    scribe = NoteScribe(case, dice, replace(style, habits=style.habits - {"sloppy"}))
    topic = scribe.topic_of(case.chief)
    scribe.write(dice.pick(texts["title"]), topic)
    scribe.builder.text(".\n")
    structured = dice.chance(0.6)
    for index, (part, low, high) in enumerate(_ABSTRACT_PARTS):
        if structured:
            scribe.builder.text(f"{texts['headings'][index]}: ")
        for sentence in dice.sample(texts[part], dice.between(low, high)):
            scribe.write(sentence, topic if dice.chance(_ON_TOPIC) else None)
            scribe.builder.text(" ")
        scribe.builder.text("\n" if structured else "")
    meta = {"language": language, "split": split, "kind": "abstract", "specialty": case.specialty}
    # An abstract is not about one patient, so it has no conditions and no severity.
    return scribe.builder.build(f"{language}-{split}-a{number:06}", labels=(), value=None, meta=meta)


def _heading(scribe: NoteScribe, text: str) -> None:
    abbreviation = len(text) < 5 or "/" in text
    title = text if abbreviation else text.capitalize()
    scribe.builder.text(scribe.style.heading.format(upper=text.upper(), title=title))


def _section(scribe: NoteScribe, name: str) -> None:
    texts = scribe.lexicon.notes
    _heading(scribe, scribe.dice.pick(texts["headings"][name]))
    if name in _WRITERS:
        _WRITERS[name](scribe)
    else:
        _sentences(scribe, _pick_sentences(scribe, texts[name]), bulleted=texts[name].get("layout") == "list")
    scribe.builder.text("\n\n")


def _daily_entries(scribe: NoteScribe, days: int) -> None:
    """Entries for each day, which make a note long."""
    texts, dice = scribe.lexicon.notes, scribe.dice
    pool = [sentence for name in ("course", "subjective", "imaging") for sentence in texts[name]["body"]]
    pool += texts["asides"]["course"]
    for day in range(2, days + 2):
        _heading(scribe, dice.pick(texts["days"]["heading"]).format(n=day))
        _sentences(scribe, dice.sample(pool, dice.between(6, 10)))
        scribe.builder.text("\n\n")


def _pick_sentences(scribe: NoteScribe, entry: dict[str, Any]) -> list[str]:
    """Sentences of one section: an opening, some of its body, up to two asides, and how ill the patient is."""
    dice = scribe.dice
    picked = dice.sample(entry["body"], dice.between(*entry["count"]))
    if "asides" in entry:
        for sentence in dice.sample(scribe.lexicon.notes["asides"][entry["asides"]], 2):
            if sentence not in scribe.asides and dice.chance(_ASIDE_CHANCE):
                scribe.asides.add(sentence)
                picked.insert(dice.between(0, len(picked)), sentence)
    if "open" in entry:
        picked.insert(0, dice.pick(entry["open"]))
    if "icu" in entry:
        picked.append(dice.pick(entry["icu" if "icu" in scribe.case.signs else "ward"]))
    return picked


def _sentences(scribe: NoteScribe, picked: list[str], *, bulleted: bool = False, separator: str = " ") -> None:
    for index, sentence in enumerate(picked):
        _next_item(scribe, index, bulleted, separator)
        scribe.write(sentence)


def _next_item(scribe: NoteScribe, index: int, bulleted: bool, separator: str) -> None:
    """Start item `index` of a list: a bullet on a new line, or a separator in running text."""
    if bulleted:
        scribe.builder.text(("\n" if index else "") + scribe.style.bullet.format(n=index + 1))
    elif index:
        scribe.builder.text(separator)


def _history(scribe: NoteScribe) -> None:
    """The patient's chronic diseases, as a list or in running text."""
    texts, dice = scribe.lexicon.notes["pmh"], scribe.dice
    bulleted = dice.chance(0.6)
    for index, problem in enumerate(scribe.case.patient.chronic):
        _next_item(scribe, index, bulleted, "; ")
        scribe.write(dice.pick(texts["line"]), scribe.topic_of(problem))
    picked = _pick_sentences(scribe, texts)
    if picked:
        scribe.builder.text("\n" if bulleted else ". ")
        _sentences(scribe, picked)


def _medications(scribe: NoteScribe) -> None:
    """The drugs the patient takes."""
    texts, dice, case = scribe.lexicon.notes["meds"], scribe.dice, scribe.case
    own = [scribe.topic_of(problem) for problem in (*case.patient.chronic, case.chief)]
    more = [scribe.topic_of(dice.pick(scribe.lexicon.chronic)) for _ in range(dice.between(1, 4))]
    # A line may give a reason only if the note says the patient has it. Nobody has infusions at home.
    listed = {topic.drug.name: (topic, index < len(own)) for index, topic in enumerate((*own, *more))}
    taken = [entry for entry in listed.values() if entry[0].drug.group.ways[0] != "iv"]
    bulleted = dice.chance(0.8)
    for index, (topic, known) in enumerate(taken):
        _next_item(scribe, index, bulleted, ", ")
        scribe.write(dice.pick(texts["lines"]) if known else texts["lines"][0], topic)
    if not taken or dice.chance(0.4):
        _next_item(scribe, len(taken), bulleted, ", ")
        scribe.write(dice.pick(texts["asides"]))


def _exam(scribe: NoteScribe) -> None:
    """Vital signs, their interpretation, and findings."""
    texts, dice = scribe.lexicon.notes, scribe.dice
    scribe.write(dice.pick(texts["exam"]["vitals"]))
    scribe.builder.text("\n")
    signs, words = scribe.case.signs, texts["signs"]
    parts = [dice.pick(words["ill" if len(signs) > 2 else "well"])]
    for sign in SIGNS[:-1]:
        if sign in signs:
            parts.append(dice.pick(words[sign]))
        elif dice.chance(0.35):
            parts.append(dice.pick(words[f"no_{sign}"]))
    scribe.write(", ".join(parts) + ".")
    separator = "\n" if dice.chance(0.5) else " "
    scribe.builder.text(separator)
    _sentences(scribe, _pick_sentences(scribe, texts["exam"]), separator=separator)


def _labs(scribe: NoteScribe) -> None:
    """Laboratory results, as a table or on one line."""
    texts, dice, builder = scribe.lexicon.notes["labs"], scribe.dice, scribe.builder
    intro = dice.pick(texts["intro"])
    if intro:
        scribe.write(intro)
        builder.text("\n")
    labs = dice.sample(scribe.lexicon.labs, dice.between(3, 8))
    if "table" in scribe.style.habits:
        _lab_table(scribe, texts, labs)
    else:
        units = dice.chance(0.5)
        for index, lab in enumerate(labs):
            builder.text(", " if index else "")
            builder.mark(scribe.lab_name(lab), "TEST")
            builder.text(f" {scribe.lab_value(lab)[0]}{f' {lab.unit}' if units and lab.unit else ''}")
        builder.text(".")
    picked = _pick_sentences(scribe, texts)
    builder.text("\n" if picked else "")
    _sentences(scribe, picked)


def _lab_table(scribe: NoteScribe, texts: dict[str, Any], labs: list[LabTest]) -> None:
    builder = scribe.builder
    separator = scribe.dice.pick(("  ", " | "))
    header = separator.join(word.ljust(width) for word, width in zip(texts["columns"], _COLUMNS, strict=True))
    builder.text(header.rstrip() + "\n")
    for index, lab in enumerate(labs):
        name = scribe.lab_name(lab)
        value, flag = scribe.lab_value(lab)
        builder.text("\n" if index else "")
        builder.mark(name, "TEST")
        bounds = scribe.decimal(f"{lab.low:.{lab.decimals}f} - {lab.high:.{lab.decimals}f}")
        mark = ("", texts["high"], texts["low"])[flag]
        cells = (f"{value} {mark}".strip().ljust(8), lab.unit.ljust(8), bounds)
        builder.text(" " * max(_COLUMNS[0] - len(name), 1) + separator + separator.join(cells))


_WRITERS: dict[str, Callable[[NoteScribe], None]] = {
    "pmh": _history,
    "home_meds": _medications,
    "discharge_meds": _medications,
    "exam": _exam,
    "labs": _labs,
}
