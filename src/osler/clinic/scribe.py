"""Renders templates into a NoteBuilder and records their gold annotations; slots.py fills the slots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from osler.clinic.builder import NoteBuilder
from osler.clinic.case import Case, WritingStyle
from osler.clinic.dice import Dice
from osler.clinic.labels import ATTRIBUTE_RELATIONS, CONDITION_LABELS
from osler.clinic.lexicon import DrugClass, LabTest, MedicalProblem
from osler.clinic.template import Node, Slot, parse, resolve

_ASSERTIONS = {name: name for name in ("absent", "possible", "conditional", "hypothetical")}
_ASSERTIONS["family"] = "associated_with_someone_else"
_MISSPELT = frozenset({"PROBLEM", "DRUG", "TEST", "PROCEDURE", "FREQUENCY", "DURATION"})
_FRESH_TOPIC, _CHRONIC_TOPIC = 0.3, 0.35


@dataclass(frozen=True, slots=True)
class Drug:
    """One drug under the name that this note uses for it."""

    name: str
    kind: str
    group: DrugClass


@dataclass(frozen=True, slots=True)
class Topic:
    """The subject of one sentence: a problem and a drug given for it."""

    problem: MedicalProblem
    drug: Drug


class Scribe(ABC):
    """Writes one note. A note uses one drug per class, and never reports a problem that it denies."""

    def __init__(self, case: Case, dice: Dice, style: WritingStyle) -> None:
        self.case = case
        self.lexicon = case.lexicon
        self.dice = dice
        self.style = style
        self.builder = NoteBuilder()
        self.title = ""
        # For the note so far: condition labels, problems stated (true) or denied (false), drugs, strengths, asides.
        self.labels: set[str] = set()
        self.stated: dict[str, bool] = {}
        self.drugs: dict[str, Drug] = {}
        self.strengths: dict[str, str] = {}
        self.asides: set[str] = set()
        self.lab: LabTest | None = None
        # For the sentence being written: its drug, the prescription inside it, problems and drug classes mentioned.
        self.drug: Drug | None = None
        self.prescribed: Drug | None = None
        self.way = ""
        self.form = ""
        self.mentioned: set[str] = set()
        self.others: set[str] = set()
        self._words: Mapping[str, str] = self.lexicon.notes["words"][case.patient.person.sex]
        self._topic: Topic | None = None
        self._named: dict[str, str] = {}
        self._open: list[str] = []

    @property
    def topic(self) -> Topic:
        """The problem and drug of the sentence being written."""
        if self._topic is None:
            self._topic = self._new_topic()
        return self._topic

    @abstractmethod
    def fill(self, slot: Slot) -> None:
        """Write the text of a slot."""

    def write(self, source: str, topic: Topic | None = None) -> None:
        """Write one template as a sentence of its own."""
        self._topic = topic
        self.drug = None
        self.others, self.mentioned = set(), set()
        self._named, self._open = {}, []
        template = parse(source)
        self._render(template.nodes)
        named = self._named
        for link in template.links:
            if link[0] == "attrs":
                self._link_parts(named[link[1]])
            elif link[1] in named and link[2] in named:
                self.builder.relate(link[0], named[link[1]], named[link[2]])

    def prescription(self, source: str) -> str:
        """Write a prescription inside a sentence, link its parts to its drug, and return the drug's span."""
        outside, self._open = self._open, []
        self._render(parse(source).nodes)
        drug = next(span for span in self._open if self.builder.label(span) == "DRUG")
        self._link_parts(drug)
        self._open = outside
        return drug

    def say(self, text: str) -> None:
        """Write text without annotation; a sloppy writer misspells a word now and then."""
        if "sloppy" in self.style.habits and self.dice.chance(0.06):
            words = text.split(" ")
            at = int(self.dice.roll() * len(words))
            words[at] = misspell(words[at], self.dice)
            text = " ".join(words)
        self.builder.text(text)

    def put(self, slot: Slot, surface: str, label: str, attributes: Mapping[str, str] | None = None) -> None:
        """Write an annotated mention and keep it for the relations of this sentence."""
        surface = slot.capitalise(surface)
        if "sloppy" in self.style.habits and label in _MISSPELT and self.dice.chance(0.12):
            words = surface.split(" ")
            words[-1] = misspell(words[-1], self.dice)
            surface = " ".join(words)
        self.keep(slot, self.builder.mark(surface, label, attributes or {}))

    def keep(self, slot: Slot, span: str) -> None:
        """Remember a span for the relations of this sentence."""
        if slot.name:
            self._named[slot.name] = span
        self._open.append(span)

    def drug_of(self, name: str) -> Drug:
        """The drug of this class in this note."""
        if name not in self.drugs:
            group = self.lexicon.classes[name]
            roll = self.dice.roll()
            kind, names = "drug", group.listed
            if roll < 0.36 and group.coined:
                names = group.coined
            elif roll < 0.45 and group.brands:
                kind, names = "brand", group.brands
            self.drugs[name] = Drug(self.dice.pick(names), kind, group)
        return self.drugs[name]

    def topic_of(self, problem: MedicalProblem) -> Topic:
        classes = problem.classes or ("analgesic", "supplement")
        return Topic(problem, self.drug_of(self.dice.pick(classes)))

    def about(self, problem: MedicalProblem) -> None:
        """Make this problem the sentence's topic unless it has one."""
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

    def _render(self, nodes: tuple[Node, ...]) -> None:
        for node in resolve(nodes, self.dice):
            if isinstance(node, str):
                self.say(node)
            elif node.literal is not None:
                self._annotate(node, node.literal)
            elif node.kind in self._words:
                self.say(node.capitalise(self._words[node.kind]))
            else:
                self.fill(node)

    def _annotate(self, slot: Slot, literal: tuple[Node, ...]) -> None:
        start = self.builder.length
        self._render(literal)
        attributes = {"PROBLEM": {"assertion": assertion(slot)}, "DRUG": {"kind": "drug"}}.get(slot.kind, {})
        self.labels.update(label for label in slot.modifiers if label in CONDITION_LABELS)
        self.keep(slot, self.builder.span(((start, self.builder.length),), slot.kind, attributes))

    def _link_parts(self, drug: str) -> None:
        for span in self._open:
            relation = ATTRIBUTE_RELATIONS.get(self.builder.label(span))
            if relation:
                self.builder.relate(relation, span, drug)


def assertion(slot: Slot) -> str:
    """The assertion that a slot's modifiers give to a problem."""
    return next((_ASSERTIONS[modifier] for modifier in slot.modifiers if modifier in _ASSERTIONS), "present")


def misspell(word: str, dice: Dice) -> str:
    """Swap two letters, drop one or double one inside a word of five letters or more."""
    if len(word) < 5 or not word.isalpha():
        return word
    at = dice.between(1, len(word) - 3)
    slip = dice.between(0, 2)
    if slip == 0:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    if slip == 1:
        return word[:at] + word[at + 1 :]
    return word[:at] + word[at] + word[at:]
