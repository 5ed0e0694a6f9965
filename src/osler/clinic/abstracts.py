"""Literature-like abstracts with the same gold as notes, less PHI: many drug-drug relations in little text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from osler.clinic.case import make_case
from osler.clinic.dice import Dice
from osler.clinic.labels import Language, Split
from osler.clinic.lexicon import lexicon, table
from osler.clinic.notes import check_choice
from osler.clinic.scribe import Scribe
from osler.clinic.style import draw_style
from osler.text.document import Document

_PARTS = (("background", 1, 3), ("methods", 1, 3), ("results", 2, 4), ("conclusions", 1, 2))
_ON_TOPIC = 0.75


def abstracts(n: int, *, language: Language, seed: int, split: Split) -> Iterator[Document]:
    """The first `n` abstracts; abstract k does not depend on n."""
    check_choice(language, split)
    return (abstract(number, language=language, seed=seed, split=split) for number in range(n))


def abstract(number: int, *, language: Language, seed: int, split: Split) -> Document:
    """Abstract `number` of a language, seed and split."""
    words, texts = lexicon(language, split), table(language, "abstracts")
    dice = Dice(seed, "abstract", language, split, number)
    case = make_case(words, seed, number, dice)
    # Journals are proofread: no slips, no capitals, no lost accents, no wrapped lines.
    style = replace(draw_style(dice, language), sloppy=False)
    scribe = Scribe(case, dice, style)
    topic = scribe.topic_of(case.chief)
    scribe.write(dice.pick(texts["title"]), topic)
    scribe.builder.text(".\n")
    structured = dice.chance(0.6)
    for place, (part, low, high) in enumerate(_PARTS):
        if structured:
            scribe.builder.text(f"{texts['headings'][place]}: ")
        for sentence in dice.sample(texts[part], dice.between(low, high)):
            scribe.write(sentence, topic if dice.chance(_ON_TOPIC) else None)
            scribe.builder.text(" ")
        scribe.builder.text("\n" if structured else "")
    meta = {"language": language, "split": split, "kind": "abstract", "specialty": case.specialty}
    # An abstract is about no patient: it has neither conditions nor severity.
    return scribe.builder.build(f"{language}-{split}-a{number:06}", labels=(), value=None, meta=meta)
