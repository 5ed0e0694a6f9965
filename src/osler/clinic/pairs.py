"""Sentence pairs: entailment with three labels, and similarity from 0 to 5.

Entailment: the label follows from the facts that premise and hypothesis state. Hypotheses of every label come from the same
templates, and half of them are negative, so neither the hypothesis alone nor the words it shares with the premise give
the label away. Similarity: both sentences state a set of facts in different words; the value is five times the weighted
share of facts they have in common, rounded to a half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from osler.clinic.case import DATE_FORMS, FIRST_DAY, draw_person, write_date
from osler.clinic.dice import Dice
from osler.clinic.labels import ENTAILMENT_LABELS, SPECIALTIES, Language, Split, check_choice
from osler.clinic.lexicon import DrugClass, MedicalProblem, lexicon, table
from osler.clinic.template import Slot, parse, resolve
from osler.text.document import TextPair

SAME_KIND = 0.5
"""Share of the weight that counts as common if two facts differ but are of one kind."""

KIND_SIZE = 5
"""Days and years are of one kind if they fall in the same block of this many."""

_POLARITY = ("present", "absent")

SentencePair = tuple[str, str]
Facts = dict[str, tuple[str, str]]
"""The words of each fact and its kind: two drugs may be of one class, two diseases of one specialty."""


@dataclass(frozen=True, slots=True)
class Concept:
    """A disease or a drug: its name, a broader name, and its specialty or class."""

    name: str
    broader: str
    kind: str


class Phrasebook:
    """Draws concepts and writes sentences about one made-up patient."""

    def __init__(self, language: Language, split: Split, dice: Dice) -> None:
        self.lexicon = lexicon(language, split)
        self.pairs = table(language, "pairs")
        self.dice = dice
        patient = draw_person(self.lexicon, dice)
        age = dice.between(24, 92)
        self.day = FIRST_DAY + timedelta(days=dice.between(0, 4600))
        words: Mapping[str, str] = self.lexicon.notes["words"][patient.sex]
        man = words.get("man") or words["varon"]
        self._fixed = {"he": words.get("he", ""), "his": words.get("his", ""), "man": man, "age": str(age)}

    def say(self, source: str, **values: str) -> str:
        values = self._fixed | values
        nodes = resolve(parse(source).nodes, self.dice)
        return "".join(node.capitalise(values[node.kind]) if isinstance(node, Slot) else node for node in nodes)

    def pick(self, section: str, key: str, **values: str) -> str:
        """Render a sentence from a section of the pair templates."""
        return self.say(self.dice.pick(self.pairs[section][key]), date=self.date(), **values)

    def date(self) -> str:
        """A day of the year before."""
        day = self.day - timedelta(days=self.dice.between(0, 360))
        return write_date(day, self.lexicon.language, self.dice.between(0, DATE_FORMS - 1))

    def problem(self) -> MedicalProblem:
        """A disease, coined in a third of all draws."""
        specialty = self.lexicon.specialties[self.dice.pick(SPECIALTIES)]
        roll = self.dice.roll()
        pool = specialty.coined if roll < 0.33 else specialty.chronic if roll < 0.66 else specialty.acute
        return self.dice.pick(pool)

    def disease(self, unlike: Concept | None = None) -> Concept:
        """A disease; with `unlike`, one of another specialty, and neither name contains the other."""
        while True:
            found = self.problem()
            name = self.dice.pick(found.also) if found.also and self.dice.chance(0.4) else found.name
            name = name.partition("/")[0]
            if unlike is not None:
                # "anemia" and "iron deficiency anemia" are not two different diseases.
                one, other = name.lower(), unlike.name.lower()
                if found.specialty == unlike.kind or one in other or other in one:
                    continue
            return Concept(name, found.general, found.specialty)

    def drug_class(self, unlike: str = "", milligrams: bool = False) -> DrugClass:
        """A class of drugs other than `unlike`; with `milligrams`, one that is dosed in milligrams."""
        while True:
            group = self.lexicon.classes[self.dice.pick(list(self.lexicon.classes))]
            if group.name != unlike and not (milligrams and not group.strengths[0].endswith(" mg")):
                return group

    def drug_name(self, group: DrugClass) -> str:
        return self.dice.pick(group.coined if group.coined and self.dice.chance(0.35) else group.listed)

    def medicine(self, unlike: Concept | None = None, *, milligrams: bool = False) -> Concept:
        """A drug of another class than `unlike`; its class is the broader name."""
        group = self.drug_class(unlike.kind if unlike else "", milligrams)
        return Concept(self.drug_name(group), group.groups[0], group.name)

    def symptom(self) -> str:
        return self.dice.pick(self.lexicon.specialties[self.dice.pick(SPECIALTIES)].symptoms)


def entailment_pairs(n: int, *, language: Language, seed: int, split: Split) -> Iterator[TextPair]:
    """The first `n` pairs; every three pairs have all three labels, and pair k does not depend on n."""
    check_choice(language, split)
    return (_entailment_pair(number, language, seed, split) for number in range(n))


def _entailment_pair(number: int, language: Language, seed: int, split: Split) -> TextPair:
    order = Dice(seed, "entailment-order", language, split, number // 3).sample(ENTAILMENT_LABELS, 3)
    label = order[number % 3]
    dice = Dice(seed, "entailment", language, split, number)
    family = dice.weighted(list(FAMILIES), [weight for _, weight in FAMILIES.values()])
    premise, hypothesis = FAMILIES[family][0](Phrasebook(language, split, dice), label)
    meta = {"language": language, "split": split, "family": family}
    return TextPair(f"{language}-{split}-e{number:06}", premise, hypothesis, (label,), None, meta)


def _surrounded(book: Phrasebook, sentence: str) -> str:
    """The sentence alone, or before or after another one that is unrelated to the hypothesis."""
    roll = book.dice.roll()
    if roll < 0.45:
        return sentence
    other = book.pick("extra", "lines", e=book.symptom())
    return f"{sentence} {other}" if roll < 0.75 else f"{other} {sentence}"


def _claims(book: Phrasebook, label: str, values: tuple[str, str]) -> tuple[str, str]:
    """What the hypothesis claims and what the premise states: the same, the opposite or, if neutral, either."""
    claimed = book.dice.pick(values)
    if label == "neutral":
        return claimed, book.dice.pick(values)
    return claimed, claimed if label == "entailment" else values[1 - values.index(claimed)]


def _assertion(book: Phrasebook, label: str, prefix: str = "") -> SentencePair:
    """State a concept, then claim or deny it, its broader concept, or another one.

    Having a disease entails having its kind, and lacking the kind entails lacking the disease. Nothing follows the
    other way round, or from a suspicion, a relative's disease or another disease. Drugs work the same way.
    """
    dice, draw = book.dice, book.medicine if prefix else book.disease
    concept = draw()
    name, broader, other = concept.name, concept.broader, draw(concept).name
    if label == "neutral":
        claimed, roll, stated = dice.pick(_POLARITY), dice.roll(), dice.pick(_POLARITY)
        # Having a kind of disease says nothing about this disease; lacking this disease says nothing about its kind.
        premise, asked = (broader, name) if stated == "present" else (name, broader)
        if roll < 0.3:
            premise, asked = name, other
        elif roll < 0.65 and not prefix:
            stated, asked = dice.pick(("possible", "family")), dice.pick((name, broader))
            premise = name
    else:
        claimed, stated = _claims(book, label, _POLARITY)
        either = name if dice.chance(0.5) else broader
        premise, asked = (name, either) if stated == "present" else (either, name)
    sentence = book.pick(f"{prefix}state", stated, c=premise, d=book.disease().name)
    return _surrounded(book, sentence), book.pick(f"{prefix}claim", claimed, c=asked)


def _measure(book: Phrasebook, label: str) -> SentencePair:
    """A value in the premise and its meaning in the hypothesis; neutral if they are about different measurements."""
    dice = book.dice
    told, asked = dice.sample(book.pairs["measures"], 2)
    claimed, meant = _claims(book, label, ("high", "normal"))
    if label != "neutral":
        asked = told
    low, normal, high, top = told["range"]
    start, end = (low, normal) if meant == "normal" else (high, top)
    value = f"{start + (end - start) * dice.roll():.{told['decimals']}f}"
    if book.lexicon.language == "es" and dice.chance(0.5):
        value = value.replace(".", ",")
    premise = book.say(dice.pick(told["say"]), v=value)
    return _surrounded(book, premise), book.say(dice.pick(asked[claimed]))


def _dose(book: Phrasebook, label: str) -> SentencePair:
    """Milligrams times doses per day make a daily dose."""
    dice = book.dice
    concept = book.medicine(milligrams=True)
    amount = dice.pick((5, 10, 20, 25, 50, 75, 100, 250, 500))
    times = dice.between(1, 4)
    total, asked = amount * times, concept.name
    if label == "contradiction":
        total = amount * dice.pick([count for count in (1, 2, 3, 4, 6) if count != times])
    elif label == "neutral":
        asked = book.medicine(concept, milligrams=True).name
    words = book.pairs["dose"]["times"][times - 1]
    premise = book.pick("dose", "premise", c=concept.name, n=str(amount), times=words)
    return _surrounded(book, premise), book.pick("dose", "claim", c=asked, total=str(total))


def _age(book: Phrasebook, label: str) -> SentencePair:
    dice = book.dice
    claimed = dice.pick(("over", "under"))
    bound = dice.between(30, 85)
    above = (claimed == "over") == (label == "entailment")
    age = bound + dice.between(2, 12) if above else bound - dice.between(2, 12)
    key = "neutral" if label == "neutral" else "premise"
    premise = book.pick("age", key, n=str(age), c=book.disease().name)
    return _surrounded(book, premise), book.pick("age", claimed, m=str(bound))


def _trend(book: Phrasebook, label: str) -> SentencePair:
    concept = book.disease()
    claimed, told = _claims(book, label, ("better", "worse"))
    asked = book.disease(concept).name if label == "neutral" else concept.name
    premise = book.pick("trend", told, c=concept.name, d=book.medicine().name)
    return _surrounded(book, premise), book.pick("trend", f"claim_{claimed}", c=asked)


def _stay(book: Phrasebook, label: str) -> SentencePair:
    dice = book.dice
    days = dice.between(2, 14)
    form = dice.between(0, DATE_FORMS - 1)
    ends = (book.day, book.day + timedelta(days=days))
    first, last = (write_date(day, book.lexicon.language, form) for day in ends)
    key = "neutral" if label == "neutral" else "premise"
    premise = book.pick("stay", key, first=first, last=last, c=book.disease().name)
    claimed = days if label == "entailment" else days + dice.pick((-1, 1)) * dice.between(1, max(days - 1, 1))
    return _surrounded(book, premise), book.pick("stay", "claim", n=str(claimed))


def _allergy(book: Phrasebook, label: str) -> SentencePair:
    concept = book.medicine()
    claimed, told = _claims(book, label, _POLARITY)
    asked = book.medicine(concept).name if label == "neutral" else concept.name
    effect = book.dice.pick(book.lexicon.classes[concept.kind].effects)
    premise = book.pick("allergy", told, c=concept.name, e=effect)
    return _surrounded(book, premise), book.pick("allergy", f"claim_{claimed}", c=asked)


FAMILIES: dict[str, tuple[Callable[[Phrasebook, str], SentencePair], int]] = {
    "disease": (_assertion, 8),
    "medicine": (partial(_assertion, prefix="drug_"), 4),
    "measure": (_measure, 4),
    "dose": (_dose, 2),
    "age": (_age, 2),
    "trend": (_trend, 3),
    "stay": (_stay, 2),
    "allergy": (_allergy, 3),
}
"""Families of entailment pairs with their weights."""


def similarity_pairs(n: int, *, language: Language, seed: int, split: Split) -> Iterator[TextPair]:
    """The first `n` pairs; pair k does not depend on n."""
    check_choice(language, split)
    return (_similarity_pair(number, language, seed, split) for number in range(n))


def _similarity_pair(number: int, language: Language, seed: int, split: Split) -> TextPair:
    dice = Dice(seed, "similarity", language, split, number)
    book = Phrasebook(language, split, dice)
    frames = book.pairs["frames"]
    name = dice.pick(list(frames))
    frame, facts, value = frames[name], _facts(book, frames[name]), 0.0
    if dice.chance(0.1):
        other = frames[dice.pick([other for other in frames if other != name])]
        first, second = _sentence(book, frame, facts, 0), _sentence(book, other, _facts(book, other), 1)
    else:
        changed = _changed(book, frame, facts)
        value = similarity(frame["weights"], facts, changed)
        # Never both from the same template.
        one, two = dice.sample(range(len(frame["start"])), 2)
        first, second = _sentence(book, frame, facts, one), _sentence(book, frame, changed, two)
    if dice.chance(0.5):
        first, second = second, first
    meta = {"language": language, "split": split, "family": name}
    return TextPair(f"{language}-{split}-s{number:06}", first, second, (), value, meta)


def similarity(weights: Mapping[str, float], first: Facts, second: Facts) -> float:
    """Five times the weighted share of common facts, rounded to a half; two facts of one kind count half."""
    shared = 0.0
    for key, weight in weights.items():
        if first[key][0] == second[key][0]:
            shared += weight
        elif first[key][1] and first[key][1] == second[key][1]:
            shared += weight * SAME_KIND
    return round(10 * shared / sum(weights.values())) / 2


def _changed(book: Phrasebook, frame: dict[str, Any], facts: Facts) -> Facts:
    """Replace a random number of facts, half of them by another fact of the same kind if there is one."""
    dice = book.dice
    keys = list(frame["weights"])
    count = dice.between(0, len(keys))
    fresh = _facts(book, frame)
    changed = dict(facts)
    for key in dice.sample(keys, count):
        near = _same_kind(book, key, facts[key][1]) if dice.chance(0.5) else ""
        changed[key] = (near, facts[key][1]) if near else fresh[key]
    return changed


def _same_kind(book: Phrasebook, key: str, kind: str) -> str:
    """Another drug of the class, another disease of the specialty, or a number that is not far off."""
    if key in ("days", "year"):
        return str(int(kind) * KIND_SIZE + book.dice.between(1, KIND_SIZE - 1))
    if key == "drug":
        return book.drug_name(book.lexicon.classes[kind])
    if key == "problem":
        specialty = book.lexicon.specialties[kind]
        return book.dice.pick((*specialty.acute, *specialty.chronic)).name
    return ""


def _sentence(book: Phrasebook, frame: dict[str, Any], facts: Facts, which: int) -> str:
    action = facts["action"][0] if "action" in facts else "start"
    return book.say(frame[action][which], **{key: words for key, (words, _) in facts.items()})


def _facts(book: Phrasebook, frame: dict[str, Any]) -> Facts:
    return {key: _fact(book, key) for key in frame["weights"]}


def _fact(book: Phrasebook, key: str) -> tuple[str, str]:
    """Draw a fact: its words, and its kind if it has one."""
    dice = book.dice
    if key in book.pairs["facts"]:
        return dice.pick(book.pairs["facts"][key]), ""
    if key == "drug":
        group = book.drug_class(milligrams=True)
        return book.drug_name(group), group.name
    if key == "problem":
        found = book.problem()
        return found.name, found.specialty
    if key in ("days", "year"):
        number = dice.between(2, 24) if key == "days" else book.day.year - dice.between(1, 20)
        return str(number), str(number // KIND_SIZE)
    if key == "test":
        return dice.pick([test for test in book.lexicon.imaging[dice.pick(SPECIALTIES)] if "{" not in test]), ""
    if key == "date":
        return book.date(), ""
    return (draw_person(book.lexicon, dice).surname if key == "person" else book.symptom()), ""
