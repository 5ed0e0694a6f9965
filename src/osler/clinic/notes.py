"""Clinical notes with gold, one after another: note k of a language, seed and split is always the same note.

Contexts are informative on purpose: titles, headings, verbs, units and word endings tell what a word is, so that a
small encoder learns the tasks from a few hundred notes, whereas a list of the words seen in training does not.
"""

from __future__ import annotations

from collections.abc import Iterator

from osler.clinic.case import make_case
from osler.clinic.dice import Dice
from osler.clinic.labels import LANGUAGES, SPLITS, Language, Split
from osler.clinic.lexicon import lexicon
from osler.clinic.scribe import Scribe
from osler.clinic.sections import block, heading, section, sentences
from osler.clinic.style import draw_style
from osler.core.errors import InputError, nearest
from osler.text.document import Document

_OPTIONAL_CHANCE = 0.6


def check_choice(language: str, split: str) -> None:
    """Refuse a language or split the clinic does not have."""
    for name, value, known in (("language", language, LANGUAGES), ("split", split, SPLITS)):
        if value not in known:
            near = nearest(value, known)
            guess = f"; did you mean {near}?" if near else ""
            raise InputError(f"the synthetic clinic has no {name} {value!r}", fix=f"Use {' or '.join(known)}{guess}")


def notes(n: int, *, language: Language, seed: int, split: Split) -> Iterator[Document]:
    """The first `n` notes; the first notes do not depend on how many follow."""
    check_choice(language, split)
    return (note(number, language=language, seed=seed, split=split) for number in range(n))


def note(number: int, *, language: Language, seed: int, split: Split) -> Document:
    """Note `number`: a text with entities, PHI, relations, conditions as labels and severity as value."""
    words = lexicon(language, split)
    dice = Dice(seed, "note", language, split, number)
    case = make_case(words, seed, number, dice)
    style = draw_style(dice, language)
    scribe = Scribe(case, dice, style)
    scribe.title = dice.pick(case.kind["title"])
    for name in case.kind["sections"]:
        if name.endswith("?"):
            if not dice.chance(_OPTIONAL_CHANCE):
                continue
            name = name[:-1]
        if name in words.notes["blocks"]:
            block(scribe, name)
        else:
            section(scribe, name)
        if name in ("course", "plan") and style.pages:
            _days(scribe, style.pages)
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
        value=case.severity,
        meta=meta,
        width=style.width,
        accents=style.accents,
        capitals=style.capitals,
    )


def _days(scribe: Scribe, count: int) -> None:
    """Daily entries that make a note long."""
    words, dice = scribe.lexicon.notes, scribe.dice
    pool = [sentence for name in ("course", "subjective", "imaging") for sentence in words[name]["body"]]
    pool += words["asides"]["course"]
    for day in range(2, count + 2):
        heading(scribe, dice.pick(words["days"]["heading"]).format(n=day))
        sentences(scribe, dice.sample(pool, dice.between(6, 10)), bulleted=False)
        scribe.builder.text("\n\n")
