"""Pairs of sentences that share more or fewer facts in other words; the value is five times the share, by halves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from osler.clinic.dice import Dice
from osler.clinic.labels import SPECIALTIES, Language, Split
from osler.clinic.lexicon import Problem
from osler.clinic.notes import check_choice
from osler.clinic.people import person
from osler.clinic.phrases import Phrasebook
from osler.text.document import TextPair

Facts = dict[str, tuple[str, str]]
"""The words of each fact, and what it is a case of: two drugs may be of one class, two diseases of one specialty."""

KINSHIP = 0.5
"""How much of a fact's weight two different facts of one kind share."""

NEAR = 5
"""Days and years in the same run of so many are of one kind."""


def similarity_pairs(n: int, *, language: Language, seed: int, split: Split) -> Iterator[TextPair]:
    """The first `n` pairs; pair k does not depend on n."""
    check_choice(language, split)
    return (similarity_pair(number, language=language, seed=seed, split=split) for number in range(n))


def similarity_pair(number: int, *, language: Language, seed: int, split: Split) -> TextPair:
    """Pair `number` of a language, seed and split."""
    dice = Dice(seed, "similarity", language, split, number)
    book = Phrasebook(language, split, dice)
    names = list(book.pairs["frames"])
    name = dice.pick(names)
    facts = _facts(book, name)
    if dice.chance(0.1):
        other = dice.pick([frame for frame in names if frame != name])
        first, second = _sentence(book, name, facts, 0), _sentence(book, other, _facts(book, other), 1)
        value = 0.0
    else:
        changed = _changed(book, name, facts)
        first, second = _two_ways(book, name, facts, changed)
        value = similarity(book.pairs["frames"][name]["weights"], facts, changed)
    if dice.chance(0.5):
        first, second = second, first
    meta = {"language": language, "split": split, "family": name}
    return TextPair(f"{language}-{split}-s{number:06}", first, second, (), value, meta)


def similarity(weights: Mapping[str, float], first: Facts, second: Facts) -> float:
    """Five times the weighted share of facts in common, rounded to a half; facts of one kind count half."""
    shared = 0.0
    for key, weight in weights.items():
        if first[key][0] == second[key][0]:
            shared += weight
        elif first[key][1] and first[key][1] == second[key][1]:
            shared += weight * KINSHIP
    return round(10 * shared / sum(weights.values())) / 2


def _changed(book: Phrasebook, name: str, facts: Facts) -> Facts:
    """Some of the facts, from none to all, replaced; a heavy one by its kin in half of all cases."""
    dice = book.dice
    keys = list(book.pairs["frames"][name]["weights"])
    count = dice.between(0, len(keys))
    fresh = _facts(book, name)
    changed = dict(facts)
    for key in dice.sample(keys, count):
        near = _kin(book, key, facts[key]) if dice.chance(0.5) else None
        changed[key] = near or fresh[key]
    return changed


def _kin(book: Phrasebook, key: str, fact: tuple[str, str]) -> tuple[str, str] | None:
    """Another drug of the class, another disease of the specialty, or a number that is not far off."""
    _, kind = fact
    if key in ("days", "year"):
        nearest = int(kind) * NEAR
        return str(nearest + book.dice.between(1, NEAR - 1)), kind
    if key == "drug":
        return book.drug_name(book.lexicon.classes[kind]), kind
    if key == "problem":
        specialty = book.lexicon.specialties[kind]
        return book.dice.pick((*specialty.acute, *specialty.chronic)).name, kind
    return None


def _two_ways(book: Phrasebook, name: str, facts: Facts, changed: Facts) -> tuple[str, str]:
    """Both sets of facts in words, never from the same template."""
    frame: dict[str, Any] = book.pairs["frames"][name]
    one, two = book.dice.sample(range(len(frame["start"])), 2)
    return _sentence(book, name, facts, one), _sentence(book, name, changed, two)


def _sentence(book: Phrasebook, name: str, facts: Facts, which: int) -> str:
    action = facts["action"][0] if "action" in facts else "start"
    templates: list[str] = book.pairs["frames"][name][action]
    return book.say(templates[which], **{key: words for key, (words, _) in facts.items()})


def _facts(book: Phrasebook, name: str) -> Facts:
    """Facts for a frame, drawn anew."""
    makers: dict[str, Callable[[Phrasebook], tuple[str, str]]] = {
        "drug": _drug,
        "strength": _strength,
        "frequency": _frequency,
        "problem": _problem,
        "action": _action,
        "test": _test,
        "date": lambda book: (book.date(), ""),
        "symptom": lambda book: (book.symptom(), ""),
        "other": lambda book: (book.symptom(), ""),
        "days": lambda book: _number(book.dice.between(2, 24)),
        "year": lambda book: _number(book.day.year - book.dice.between(1, 20)),
        "person": lambda book: (person(book.lexicon, book.dice).surname, ""),
    }
    return {key: makers[key](book) for key in book.pairs["frames"][name]["weights"]}


def _number(number: int) -> tuple[str, str]:
    return str(number), str(number // NEAR)


def _drug(book: Phrasebook) -> tuple[str, str]:
    group = book.drug_class(milligrams=True)
    return book.drug_name(group), group.name


def _strength(book: Phrasebook) -> tuple[str, str]:
    return f"{book.dice.pick((5, 10, 20, 25, 40, 50, 75, 100, 150, 250))} mg", ""


def _frequency(book: Phrasebook) -> tuple[str, str]:
    words: str = book.dice.pick(book.pairs["dose"]["times"])
    return words, ""


def _problem(book: Phrasebook) -> tuple[str, str]:
    found: Problem = book.problem()
    return found.name, found.specialty


def _action(book: Phrasebook) -> tuple[str, str]:
    return book.dice.pick(("start", "stop")), ""


def _test(book: Phrasebook) -> tuple[str, str]:
    tests = [test for test in book.lexicon.imaging[book.dice.pick(SPECIALTIES)] if "{" not in test]
    return book.dice.pick(tests), ""
