"""Words for sentence pairs: concepts of a language and split, and templates filled with them as plain text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from osler.clinic import dates
from osler.clinic.dice import Dice
from osler.clinic.labels import SPECIALTIES, Language, Split
from osler.clinic.lexicon import DrugClass, Lexicon, Problem, lexicon, table
from osler.clinic.people import Person, person
from osler.clinic.template import Choice, Node, Slot, parse


@dataclass(frozen=True, slots=True)
class Concept:
    """A thing that can be stated: its name, a broader name that it falls under, and what is neither."""

    name: str
    broader: str
    kind: str


def _nested(one: str, other: str) -> bool:
    """Whether one name is part of the other: "anemia" and "iron deficiency anemia" are not two different diseases."""
    one, other = one.lower(), other.lower()
    return one in other or other in one


class Phrasebook:
    """Draws concepts and writes sentences about one made-up patient."""

    def __init__(self, language: Language, split: Split, dice: Dice) -> None:
        self.lexicon: Lexicon = lexicon(language, split)
        self.pairs: dict[str, Any] = table(language, "pairs")
        self.dice = dice
        self.patient: Person = person(self.lexicon, dice)
        self.age = dice.between(24, 92)
        self.day = date(2012, 1, 1) + timedelta(days=dice.between(0, 4600))
        words: Mapping[str, str] = self.lexicon.notes["words"][self.patient.sex]
        man = words.get("man") or words["varon"]
        self._fixed = {"he": words.get("he", ""), "his": words.get("his", ""), "man": man, "age": str(self.age)}

    def say(self, source: str, **values: str) -> str:
        """One rendering of a template with these values."""
        written: list[str] = []
        self._render(parse(source).nodes, {**self._fixed, **values}, written)
        return "".join(written)

    def pick(self, section: str, key: str, **values: str) -> str:
        """A sentence of a section of the pair templates."""
        return self.say(self.dice.pick(self.pairs[section][key]), date=self.date(), **values)

    def date(self) -> str:
        """Some day of the last year."""
        day = self.day - timedelta(days=self.dice.between(0, 360))
        return dates.full(day, self.dice.between(0, dates.STYLES - 1), self.lexicon.language)

    def problem(self) -> Problem:
        """A disease, coined in a third of all draws."""
        dice = self.dice
        specialty = self.lexicon.specialties[dice.pick(SPECIALTIES)]
        roll = dice.roll()
        return dice.pick(specialty.coined if roll < 0.33 else specialty.chronic if roll < 0.66 else specialty.acute)

    def disease(self, unlike: Concept | None = None) -> Concept:
        """A disease as a concept; neither its kind nor its name is that of `unlike`."""
        while True:
            found = self.problem()
            name = self.dice.pick(found.also) if found.also and self.dice.chance(0.4) else found.name
            concept = Concept(name.partition("/")[0], found.general, found.specialty)
            if unlike is None or (concept.kind != unlike.kind and not _nested(concept.name, unlike.name)):
                return concept

    def drug_class(self, unlike: str = "", *, milligrams: bool = False) -> DrugClass:
        """A class of drugs other than `unlike`, one dosed in milligrams where that is asked."""
        while True:
            group = self.lexicon.classes[self.dice.pick(list(self.lexicon.classes))]
            if group.name != unlike and not (milligrams and not group.strengths[0].endswith(" mg")):
                return group

    def drug_name(self, group: DrugClass) -> str:
        """A drug of this class."""
        return self.dice.pick(group.coined if group.coined and self.dice.chance(0.35) else group.listed)

    def medicine(self, unlike: str = "", *, milligrams: bool = False) -> Concept:
        """A drug as a concept; the broader name is its class."""
        group = self.drug_class(unlike, milligrams=milligrams)
        return Concept(self.drug_name(group), group.groups[0], group.name)

    def symptom(self) -> str:
        """A symptom of any specialty."""
        return self.dice.pick(self.lexicon.specialties[self.dice.pick(SPECIALTIES)].symptoms)

    def _render(self, nodes: tuple[Node, ...], values: Mapping[str, str], written: list[str]) -> None:
        for node in nodes:
            if isinstance(node, Choice):
                self._render(self.dice.pick(node.options), values, written)
            elif isinstance(node, Slot):
                word = values[node.kind]
                written.append(word[:1].upper() + word[1:] if node.capital else word)
            else:
                written.append(node)
