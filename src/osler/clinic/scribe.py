"""Renders templates into a NoteBuilder: fills slots from the facts of a case and records the gold they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from osler.clinic.builder import NoteBuilder
from osler.clinic.case import Case
from osler.clinic.dice import Dice
from osler.clinic.labels import ATTRIBUTE_RELATIONS, CONDITION_LABELS
from osler.clinic.lexicon import DrugClass, Lab, Problem
from osler.clinic.slots import SLOTS
from osler.clinic.style import Style, misspell
from osler.clinic.template import Choice, Node, Slot, Template, parse

ASSERTION_OF = {
    "absent": "absent",
    "possible": "possible",
    "conditional": "conditional",
    "hypothetical": "hypothetical",
    "family": "associated_with_someone_else",
}
_SLIPS = frozenset({"PROBLEM", "DRUG", "TEST", "PROCEDURE", "FREQUENCY", "DURATION"})
_FRESH_TOPIC, _CHRONIC_TOPIC = 0.3, 0.35


@dataclass(frozen=True, slots=True)
class Drug:
    """One drug by the name this note uses for it."""

    name: str
    kind: str
    group: DrugClass


@dataclass(frozen=True, slots=True)
class Topic:
    """What one sentence is about: a problem and a drug that is given for it."""

    problem: Problem
    drug: Drug


class Scribe:
    """Writes one note. Within a note a class of drugs keeps its drug, and what is denied is not also reported."""

    def __init__(self, case: Case, dice: Dice, style: Style) -> None:
        self.case = case
        self.lexicon = case.lexicon
        self.dice = dice
        self.style = style
        self.builder = NoteBuilder()
        self.labels: set[str] = set()
        self.stated: dict[str, bool] = {}
        self.drugs: dict[str, Drug] = {}
        self.drug: Drug | None = None
        self.prescribed: Drug | None = None
        self.way = ""
        self.form = ""
        self.strengths: dict[str, str] = {}
        self.said: set[str] = set()
        self.others: set[str] = set()
        self.lab: Lab | None = None
        self.asides: set[str] = set()
        self.title = ""
        self.words: Mapping[str, str] = self.lexicon.notes["words"][case.patient.person.sex]
        self._topic: Topic | None = None
        self._named: dict[str, str] = {}
        self._open: list[str] = []

    @property
    def topic(self) -> Topic:
        """The problem and drug of the sentence being written."""
        if self._topic is None:
            self._topic = self._new_topic()
        return self._topic

    def write(self, source: str, topic: Topic | None = None) -> None:
        """Write one template as a sentence of its own."""
        self._topic = topic
        self.drug = None
        self.others = set()
        self.said = set()
        self._named = {}
        self._open = []
        template = parse(source)
        self.render(template.nodes)
        self._relate(template)

    def render(self, nodes: tuple[Node, ...]) -> None:
        """Write nodes in order."""
        for node in nodes:
            if isinstance(node, str):
                self.say(node)
            elif isinstance(node, Choice):
                self.render(self.dice.pick(node.options))
            else:
                self._fill(node)

    def prescription(self, source: str) -> str:
        """Write a prescription, its parts tied to its drug, inside a sentence and return the drug's span."""
        outside, self._open = self._open, []
        self.render(parse(source).nodes)
        drug = next(span for span in self._open if self.builder.label(span) == "DRUG")
        self._tie(drug)
        self._open = outside
        return drug

    def say(self, text: str) -> None:
        """Write text that is not annotated; a careless writer slips now and then."""
        if self.style.sloppy and self.dice.chance(0.06):
            words = text.split(" ")
            place = int(self.dice.roll() * len(words))
            words[place] = misspell(words[place], self.dice)
            text = " ".join(words)
        self.builder.text(text)

    def put(self, slot: Slot, surface: str, label: str, attributes: Mapping[str, str] | None = None) -> str:
        """Write an annotated mention under the slot's name and return its id."""
        if slot.capital:
            surface = surface[0].upper() + surface[1:]
        if self.style.sloppy and label in _SLIPS and self.dice.chance(0.12):
            words = surface.split(" ")
            words[-1] = misspell(words[-1], self.dice)
            surface = " ".join(words)
        span = self.builder.mark(surface, label, attributes or {})
        self.keep(slot, span)
        return span

    def keep(self, slot: Slot, span: str) -> None:
        """Remember a span for the relations of this sentence."""
        if slot.name:
            self._named[slot.name] = span
        self._open.append(span)

    def assertion(self, slot: Slot) -> str:
        """What the slot's modifiers say of a problem; present when they say nothing."""
        for modifier in slot.modifiers:
            if modifier in ASSERTION_OF:
                return ASSERTION_OF[modifier]
        return "present"

    def drug_of(self, name: str) -> Drug:
        """The drug of a class in this note."""
        known = self.drugs.get(name)
        if known is None:
            group = self.lexicon.classes[name]
            roll = self.dice.roll()
            if roll < 0.36 and group.coined:
                known = Drug(self.dice.pick(group.coined), "drug", group)
            elif roll < 0.45 and group.brands:
                known = Drug(self.dice.pick(group.brands), "brand", group)
            else:
                known = Drug(self.dice.pick(group.listed), "drug", group)
            self.drugs[name] = known
        return known

    def topic_of(self, problem: Problem) -> Topic:
        """A topic about this problem."""
        classes = problem.classes or ("analgesic", "supplement")
        return Topic(problem, self.drug_of(self.dice.pick(classes)))

    def about(self, problem: Problem) -> None:
        """Make this problem the sentence's topic, where it has none yet."""
        if self._topic is None:
            self._topic = self.topic_of(problem)

    def _new_topic(self) -> Topic:
        dice, case = self.dice, self.case
        roll = dice.roll()
        if roll < _FRESH_TOPIC:
            specialty = self.lexicon.specialties[case.specialty]
            pool = specialty.coined if dice.chance(0.55) else specialty.acute
            for _ in range(4):
                problem = dice.pick(pool)
                if self.stated.get(problem.name, True):
                    return self.topic_of(problem)
        if roll < _FRESH_TOPIC + _CHRONIC_TOPIC:
            return self.topic_of(dice.pick(case.patient.chronic))
        return self.topic_of(case.chief)

    def _fill(self, slot: Slot) -> None:
        if slot.literal is not None:
            start = self.builder.length
            self.render(slot.literal)
            attributes = {"assertion": self.assertion(slot)} if slot.kind == "PROBLEM" else {}
            if slot.kind == "DRUG":
                attributes = {"kind": "drug"}
            self.labels.update(label for label in slot.modifiers if label in CONDITION_LABELS)
            self.keep(slot, self.builder.span(((start, self.builder.length),), slot.kind, attributes))
            return
        word = self.words.get(slot.kind)
        if word is not None:
            self.say(word.capitalize() if slot.capital else word)
            return
        SLOTS[slot.kind](self, slot)

    def _relate(self, template: Template) -> None:
        named = self._named
        for link in template.links:
            if link[0] == "attrs":
                self._tie(named[link[1]])
            elif link[1] in named and link[2] in named:
                self.builder.relate(link[0], named[link[1]], named[link[2]])

    def _tie(self, drug: str) -> None:
        for span in self._open:
            relation = ATTRIBUTE_RELATIONS.get(self.builder.label(span))
            if relation:
                self.builder.relate(relation, span, drug)
