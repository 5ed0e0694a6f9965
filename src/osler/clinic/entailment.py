"""Premise and hypothesis from the facts of a case: the label follows from what they state, by the rules below.

Hypotheses of every label are written from the same templates and half of them are negative, so that neither the
hypothesis alone nor the words it shares with the premise give the label away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from osler.clinic import dates
from osler.clinic.dice import Dice
from osler.clinic.labels import ENTAILMENT_LABELS, Language, Split
from osler.clinic.notes import check_choice
from osler.clinic.phrases import Concept, Phrasebook
from osler.text.document import TextPair

Pair = tuple[str, str]
Family = Callable[[Phrasebook, str], Pair]


def entailment_pairs(n: int, *, language: Language, seed: int, split: Split) -> Iterator[TextPair]:
    """The first `n` pairs, labels in balance after every third; pair k does not depend on n."""
    check_choice(language, split)
    return (entailment_pair(number, language=language, seed=seed, split=split) for number in range(n))


def entailment_pair(number: int, *, language: Language, seed: int, split: Split) -> TextPair:
    """Pair `number` of a language, seed and split."""
    order = Dice(seed, "entailment-order", language, split, number // 3).sample(ENTAILMENT_LABELS, 3)
    label = order[number % 3]
    dice = Dice(seed, "entailment", language, split, number)
    family = dice.weighted(list(FAMILIES), [weight for _, weight in FAMILIES.values()])
    premise, hypothesis = FAMILIES[family][0](Phrasebook(language, split, dice), label)
    meta = {"language": language, "split": split, "family": family}
    return TextPair(f"{language}-{split}-e{number:06}", premise, hypothesis, (label,), None, meta)


def _surrounded(book: Phrasebook, sentence: str) -> str:
    """The sentence alone, or with another before or after it that has nothing to do with the hypothesis."""
    roll = book.dice.roll()
    if roll < 0.45:
        return sentence
    other = book.pick("extra", "lines", e=book.symptom())
    return f"{sentence} {other}" if roll < 0.75 else f"{other} {sentence}"


def _assertion(book: Phrasebook, label: str, concept: Concept, other: Concept, prefix: str = "") -> Pair:
    """State a concept, then claim it, what it falls under, or another one, to be so or not to be so.

    Having a disease entails having its kind; lacking the kind entails lacking the disease; nothing follows the other
    way round, nor from a suspicion, a relative's disease or another disease.
    """
    dice = book.dice
    claimed = dice.pick(("present", "absent"))
    name, broader = concept.name, concept.broader
    stated = claimed if label == "entailment" else "absent" if claimed == "present" else "present"
    if label == "neutral":
        roll = dice.roll()
        stated = dice.pick(("present", "absent"))
        # A kind that is present says nothing of this disease, nor does an absent disease of its kind.
        said, asked = (broader, name) if stated == "present" else (name, broader)
        if roll < 0.3:
            said, asked = name, other.name
        elif roll < 0.65 and not prefix:
            stated, asked = dice.pick(("possible", "family")), dice.pick((name, broader))
            said = name
    else:
        same = dice.chance(0.5)
        said, asked = (name, name if same else broader) if stated == "present" else (name if same else broader, name)
    premise = book.pick(f"{prefix}state", stated, c=said, d=book.disease().name)
    return _surrounded(book, premise), book.pick(f"{prefix}claim", claimed, c=asked)


def _disease(book: Phrasebook, label: str) -> Pair:
    concept = book.disease()
    return _assertion(book, label, concept, book.disease(concept))


def _medicine(book: Phrasebook, label: str) -> Pair:
    concept = book.medicine()
    return _assertion(book, label, concept, book.medicine(concept.kind), "drug_")


def _measure(book: Phrasebook, label: str) -> Pair:
    """A value in a premise, its meaning in the hypothesis; neutral when another thing was measured."""
    dice, measures = book.dice, book.pairs["measures"]
    told, asked = dice.sample(measures, 2)
    claimed = dice.pick(("high", "normal"))
    meant = claimed if label == "entailment" else "normal" if claimed == "high" else "high"
    if label == "neutral":
        meant = dice.pick(("high", "normal"))
    else:
        asked = told
    value = _value(dice, told, meant)
    comma = book.lexicon.language == "es" and dice.chance(0.5)
    premise = book.say(dice.pick(told["say"]), v=value.replace(".", ",") if comma else value)
    return _surrounded(book, premise), book.say(dice.pick(asked[claimed]))


def _value(dice: Dice, measure: dict[str, Any], meant: str) -> str:
    low, normal, high, top = measure["range"]
    start, end = (low, normal) if meant == "normal" else (high, top)
    return f"{start + (end - start) * dice.roll():.{measure['decimals']}f}"


def _dose(book: Phrasebook, label: str) -> Pair:
    """So many milligrams so many times a day make a daily dose."""
    dice = book.dice
    concept = book.medicine(milligrams=True)
    amount = dice.pick((5, 10, 20, 25, 50, 75, 100, 250, 500))
    times = dice.between(1, 4)
    total = amount * times
    asked = concept.name
    if label == "contradiction":
        total = amount * dice.pick([count for count in (1, 2, 3, 4, 6) if count != times])
    elif label == "neutral":
        asked = book.medicine(concept.kind, milligrams=True).name
    words = book.pairs["dose"]["times"][times - 1]
    premise = book.pick("dose", "premise", c=concept.name, n=str(amount), times=words)
    return _surrounded(book, premise), book.pick("dose", "claim", c=asked, total=str(total))


def _age(book: Phrasebook, label: str) -> Pair:
    dice = book.dice
    claimed = dice.pick(("over", "under"))
    bound = dice.between(30, 85)
    above = (claimed == "over") == (label == "entailment")
    age = bound + dice.between(2, 12) if above else bound - dice.between(2, 12)
    key = "neutral" if label == "neutral" else "premise"
    premise = book.pick("age", key, n=str(age), c=book.disease().name)
    return _surrounded(book, premise), book.pick("age", claimed, m=str(bound))


def _trend(book: Phrasebook, label: str) -> Pair:
    dice = book.dice
    concept = book.disease()
    claimed = dice.pick(("better", "worse"))
    told = claimed if label == "entailment" else "worse" if claimed == "better" else "better"
    asked = concept.name
    if label == "neutral":
        told = dice.pick(("better", "worse"))
        asked = book.disease(concept).name
    premise = book.pick("trend", told, c=concept.name, d=book.medicine().name)
    return _surrounded(book, premise), book.pick("trend", f"claim_{claimed}", c=asked)


def _stay(book: Phrasebook, label: str) -> Pair:
    dice = book.dice
    days = dice.between(2, 14)
    style = dice.between(0, dates.STYLES - 1)
    ends = (book.day, book.day + timedelta(days=days))
    first, last = (dates.full(day, style, book.lexicon.language) for day in ends)
    key = "neutral" if label == "neutral" else "premise"
    premise = book.pick("stay", key, first=first, last=last, c=book.disease().name)
    claimed = days if label == "entailment" else days + dice.pick((-1, 1)) * dice.between(1, max(days - 1, 1))
    return _surrounded(book, premise), book.pick("stay", "claim", n=str(claimed))


def _allergy(book: Phrasebook, label: str) -> Pair:
    dice = book.dice
    group = book.drug_class()
    name = asked = book.drug_name(group)
    claimed = dice.pick(("present", "absent"))
    told = claimed if label == "entailment" else "absent" if claimed == "present" else "present"
    if label == "neutral":
        told = dice.pick(("present", "absent"))
        asked = book.medicine(group.name).name
    premise = book.pick("allergy", told, c=name, e=dice.pick(group.effects))
    return _surrounded(book, premise), book.pick("allergy", f"claim_{claimed}", c=asked)


FAMILIES: dict[str, tuple[Family, int]] = {
    "disease": (_disease, 8),
    "medicine": (_medicine, 4),
    "measure": (_measure, 4),
    "dose": (_dose, 2),
    "age": (_age, 2),
    "trend": (_trend, 3),
    "stay": (_stay, 2),
    "allergy": (_allergy, 3),
}
