"""Slots for problems: diseases, symptoms and findings, each with its assertion."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from osler.clinic.lexicon import Problem
from osler.clinic.slots.base import Fill
from osler.clinic.template import Slot
from osler.text.document import Fragment

if TYPE_CHECKING:
    from osler.clinic.scribe import Scribe

_TRIES = 5
_AREAS = {
    "lungs": "pulmonology",
    "heart": "cardiology",
    "abdomen": "gastroenterology",
    "neuro": "neurology",
    "skin": "infectious-disease",
    "neck": "endocrinology",
}
"""The specialty whose coined findings belong to a part of the physical examination."""


def _state(scribe: Scribe, slot: Slot, key: str, surface: str, label: str = "") -> str:
    """Write a problem with the slot's assertion, and remember what the note says of it."""
    assertion = scribe.assertion(slot)
    scribe.said.add(key)
    if assertion in ("present", "absent"):
        scribe.stated[key] = assertion == "present"
    if label and assertion == "present":
        scribe.labels.add(label)
    return scribe.put(slot, surface, "PROBLEM", {"assertion": assertion})


def _fits(scribe: Scribe, slot: Slot, key: str) -> bool:
    """Whether stating this problem so neither repeats this sentence nor contradicts an earlier one."""
    if key in scribe.said:
        return False
    known = scribe.stated.get(key)
    if known is None:
        return True
    assertion = scribe.assertion(slot)
    return known if assertion == "present" else not known if assertion == "absent" else False


def _surface(scribe: Scribe, problem: Problem, often: float) -> str:
    """One of a problem's names, often with a word on how it is."""
    dice = scribe.dice
    name, gender = problem.name, problem.gender
    if problem.also and dice.chance(0.5):
        # A Spanish synonym of the other gender says so: "enfisema/m".
        name, _, other = dice.pick(problem.also).partition("/")
        gender = other or gender
    return modified(scribe, name, gender) if dice.chance(often) else name


def modified(scribe: Scribe, name: str, gender: str) -> str:
    """A problem's name with a modifier inside the mention; Spanish adjectives follow and agree."""
    general = scribe.lexicon.general
    if name.split(" ", 1)[0] in general["no_modifier_after"]:
        return name
    dice = scribe.dice
    roll = dice.roll()
    which = "" if gender or scribe.lexicon.language == "en" else "neutral_"
    words = [dice.pick(general[f"{which}degrees"])] if roll < 0.45 else []
    if roll > 0.3:
        words.append(dice.pick(general[f"{which}modifiers"]))
    if scribe.lexicon.language == "en":
        return f"{' '.join(words)} {name}"
    return f"{name} {' y '.join(agree(word, f'/{gender}') for word in words)}"


def _problem(scribe: Scribe, slot: Slot, problem: Problem) -> None:
    often = 0.4 if scribe.assertion(slot) == "present" else 0.1
    _state(scribe, slot, problem.name, _surface(scribe, problem, often), problem.label)


def _topic_problem(scribe: Scribe, slot: Slot) -> None:
    if "other" not in slot.modifiers:
        _problem(scribe, slot, scribe.topic.problem)
        return
    specialty = scribe.lexicon.specialties[scribe.case.specialty]
    pool = specialty.coined if scribe.dice.chance(0.5) else specialty.chronic + specialty.acute
    _problem(scribe, slot, _choose(scribe, slot, pool, avoid=scribe.topic.problem.name))


def _choose(scribe: Scribe, slot: Slot, pool: tuple[Problem, ...], avoid: str = "") -> Problem:
    problem = scribe.dice.pick(pool)
    for _ in range(_TRIES):
        if problem.name != avoid and _fits(scribe, slot, problem.name):
            break
        problem = scribe.dice.pick(pool)
    return problem


def _chief(scribe: Scribe, slot: Slot) -> None:
    scribe.about(scribe.case.chief)
    _problem(scribe, slot, scribe.case.chief)


def _chronic(scribe: Scribe, slot: Slot) -> None:
    problem = scribe.dice.pick(scribe.case.patient.chronic)
    scribe.about(problem)
    _problem(scribe, slot, problem)


def _chronics(scribe: Scribe, slot: Slot) -> None:
    known = scribe.case.patient.chronic
    bare = Slot("chronic", (), "", None, slot.capital)
    last = Slot("chronic", (), "", None, False)
    for place, problem in enumerate(known):
        if place:
            scribe.say(", " if place < len(known) - 1 else scribe.dice.pick(scribe.lexicon.notes["lists"]["and"]))
        _problem(scribe, last if place else bare, problem)


def _other(scribe: Scribe, slot: Slot) -> None:
    """A disease that is not one of the patient's: denied, feared, or a relative's."""
    own = {problem.name for problem in scribe.case.patient.chronic} | {scribe.case.chief.name}
    lexicon = scribe.lexicon
    specialty = lexicon.specialties[scribe.case.specialty]
    pool = specialty.coined if scribe.dice.chance(0.35) else lexicon.chronic
    problem = _choose(scribe, slot, pool)
    for _ in range(_TRIES):
        if problem.name not in own:
            break
        problem = _choose(scribe, slot, pool)
    _problem(scribe, slot, problem)


def _symptom_words(scribe: Scribe, slot: Slot) -> str:
    dice, lexicon = scribe.dice, scribe.lexicon
    roll = dice.roll()
    for modifier in slot.modifiers:
        if modifier in lexicon.specialties:
            return dice.pick(lexicon.specialties[modifier].symptoms)
    if roll < 0.35:
        return dice.pick(lexicon.specialties[scribe.case.specialty].symptoms)
    if roll < 0.6:
        general: list[str] = lexicon.general["symptoms"]
        return dice.pick(general)
    return _site_words(scribe, slot)


def _finding_words(scribe: Scribe, slot: Slot) -> str:
    dice, specialty = scribe.dice, scribe.lexicon.specialties[scribe.case.specialty]
    roll = dice.roll()
    area = slot.modifiers[0] if slot.modifiers else ""
    if area in _AREAS:
        seen: tuple[str, ...] = scribe.lexicon.general["areas"][area]
        return dice.pick(seen) if roll < 0.55 else dice.pick(scribe.lexicon.specialties[_AREAS[area]].coined).name
    if roll < 0.35:
        return dice.pick(specialty.findings)
    return dice.pick(specialty.coined).name if roll < 0.78 else _site_words(scribe, slot)


def _site_words(scribe: Scribe, slot: Slot) -> str:
    dice, general = scribe.dice, scribe.lexicon.general
    form: str = dice.pick(general["site_forms"])
    side, site = side_and_site(scribe)
    return form.format(side=side, site=site)


def side_and_site(scribe: Scribe) -> tuple[str, str]:
    """A side and a part of the body; a Spanish side agrees with its part ("rodilla/f", "izquierdo/izquierda")."""
    dice, general = scribe.dice, scribe.lexicon.general
    side, site = dice.pick(general["sides"]), dice.pick(general["sites"])
    return agree(side, site), site.partition("/")[0]


def agree(side: str, site: str) -> str:
    """The form of an adjective that fits a noun."""
    masculine, _, feminine = side.partition("/")
    return feminine if site.endswith("/f") and feminine else masculine


def _from(source: Callable[[Scribe, Slot], str]) -> Fill:
    def fill(scribe: Scribe, slot: Slot) -> None:
        words = source(scribe, slot)
        for _ in range(_TRIES):
            if _fits(scribe, slot, words):
                break
            words = source(scribe, slot)
        often = 0.3 if scribe.assertion(slot) == "present" else 0.05
        surface = modified(scribe, words, "") if scribe.dice.chance(often) else words
        _state(scribe, slot, words, surface)

    return fill


_symptom = _from(_symptom_words)


def _symptoms(scribe: Scribe, slot: Slot) -> None:
    """A list of symptoms that share their assertion, as in "denies fever, chills or cough"."""
    count = scribe.dice.between(2, 4)
    absent = scribe.assertion(slot) == "absent"
    joints = scribe.lexicon.notes["lists"]["or" if absent else "and"]
    bare = Slot("symptom", slot.modifiers, "", None, False)
    for place in range(count):
        if place:
            scribe.say(", " if place < count - 1 else joints[0] if count == 2 else scribe.dice.pick(joints))
        _symptom(scribe, bare if place else slot)


def _paired(scribe: Scribe, slot: Slot) -> None:
    """Two problems that share a noun ("left and right knee pain"): one of them is discontinuous."""
    dice, general, builder = scribe.dice, scribe.lexicon.general, scribe.builder
    site: str = dice.pick(general["sites"])
    one, two = (agree(side, site) for side in general["sides"][:2])
    noun, kind = site.partition("/")[0], dice.pick(general["paired"])
    attributes = {"assertion": scribe.assertion(slot)}
    start = builder.length
    both: tuple[tuple[Fragment, ...], ...]
    if scribe.lexicon.language == "en":
        text = f"{one} and {two} {noun} {kind}"
        end, tail = start + len(text), start + len(f"{one} and {two} ")
        both = ((start, start + len(one)), (tail, end)), ((tail - len(two) - 1, end),)
    else:
        shared = f"{kind} en {noun}"
        text = f"{shared} {one} y {two}"
        end = start + len(text)
        both = ((start, start + len(f"{shared} {one}")),), ((start, start + len(shared)), (end - len(two), end))
    builder.text(text)
    for fragments in both:
        scribe.keep(slot, builder.span(fragments, "PROBLEM", attributes))


def _reaction(scribe: Scribe, slot: Slot, options: tuple[str, ...]) -> None:
    """What a drug does besides healing; one that the note has denied is not then reported."""
    words = scribe.dice.pick(options)
    for _ in range(_TRIES):
        if _fits(scribe, slot, words):
            break
        words = scribe.dice.pick(options)
    _state(scribe, slot, words, modified(scribe, words, "") if scribe.dice.chance(0.25) else words)


def _effect(scribe: Scribe, slot: Slot) -> None:
    group = (scribe.drug or scribe.topic.drug).group
    _reaction(scribe, slot, group.effects)


def _avoid(scribe: Scribe, slot: Slot) -> None:
    group = (scribe.drug or scribe.topic.drug).group
    _reaction(scribe, slot, group.avoid)


PROBLEM_SLOTS: dict[str, Fill] = {
    "problem": _topic_problem,
    "chief": _chief,
    "chronic": _chronic,
    "chronics": _chronics,
    "other": _other,
    "symptom": _symptom,
    "symptoms": _symptoms,
    "finding": _from(_finding_words),
    "site": _from(_site_words),
    "paired": _paired,
    "effect": _effect,
    "avoid": _avoid,
}
