"""The facts behind one note: who the patient is, what is wrong, how ill they are. The text is written from them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from osler.clinic.dice import Dice
from osler.clinic.labels import SPECIALTIES
from osler.clinic.lexicon import Lexicon, Problem
from osler.clinic.people import Person, hospital, pattern, person, street

NOTES_PER_PATIENT = 2
SIGNS = ("fever", "tachycardia", "hypotension", "hypoxia", "icu")
"""The severity of a note is how many of these it states: four vital signs out of range, and intensive care."""

_SEVERITY_WEIGHTS = (22, 22, 19, 16, 12, 9)
_EPOCH = date(2012, 1, 1)


@dataclass(frozen=True, slots=True)
class Patient:
    """What stays the same from one note of a patient to the next."""

    key: str
    person: Person
    birth: date
    chronic: tuple[Problem, ...]
    allergy: str
    kin: str
    relative: Person
    mrn: str
    plan: str
    phone: str
    street: str
    city: str
    profession: str


@dataclass(frozen=True, slots=True)
class Vitals:
    """One set of vital signs; temperature in degrees Celsius."""

    temperature: float
    pulse: int
    systolic: int
    diastolic: int
    breaths: int
    saturation: int


@dataclass(frozen=True, slots=True)
class Case:
    """One encounter of one patient."""

    lexicon: Lexicon
    patient: Patient
    kind: dict[str, Any]
    specialty: str
    admitted: date
    discharged: date
    today: date
    attending: Person
    family_doctor: Person
    colleague: Person
    hospital: str
    elsewhere: str
    chief: Problem
    signs: frozenset[str]
    vitals: Vitals

    @property
    def severity(self) -> float:
        """0 (well) to 5 (all signs, and in intensive care)."""
        return float(len(self.signs))

    @property
    def age(self) -> int:
        """Whole years on the day of admission."""
        birth, day = self.patient.birth, self.admitted
        return day.year - birth.year - ((day.month, day.day) < (birth.month, birth.day))


def make_patient(lexicon: Lexicon, seed: int, number: int) -> Patient:
    """Patient `number` of a language, split and seed."""
    dice = Dice(seed, "patient", lexicon.language, lexicon.split, number)
    who = person(lexicon, dice)
    relative = person(lexicon, dice)
    if dice.chance(0.4):
        relative = Person(relative.given, who.surname, relative.sex)
    people = lexicon.people
    return Patient(
        key=f"{lexicon.language}-{lexicon.split}-p{number:06}",
        person=who,
        birth=date(1926, 1, 1) + timedelta(days=dice.between(0, 27000)),
        chronic=tuple(dice.sample(lexicon.chronic, dice.between(1, 4))),
        allergy=dice.pick(list(lexicon.classes)),
        kin=dice.pick(people["kin_female"] if relative.sex == "F" else people["kin_male"]),
        relative=relative,
        mrn=pattern(lexicon, dice, "mrn"),
        plan=pattern(lexicon, dice, "plan"),
        phone=pattern(lexicon, dice, "phone"),
        street=street(lexicon, dice),
        city=dice.pick(lexicon.cities),
        profession=_of_sex(dice.pick(people["professions"]), who.sex),
    )


def _of_sex(words: str, sex: str) -> str:
    """The form of a Spanish noun for a man or a woman ("maestro/maestra")."""
    masculine, _, feminine = words.partition("/")
    return feminine if feminine and sex == "F" else masculine


def make_case(lexicon: Lexicon, seed: int, number: int, dice: Dice) -> Case:
    """The encounter behind note `number`; `dice` is the note's own stream."""
    patient = make_patient(lexicon, seed, number // NOTES_PER_PATIENT)
    kinds = lexicon.notes["kinds"]
    kind = dice.weighted(kinds, [entry["weight"] for entry in kinds])
    specialty = lexicon.specialties[dice.pick(SPECIALTIES)]
    admitted = _EPOCH + timedelta(days=dice.between(0, 4600))
    discharged = admitted + timedelta(days=dice.between(1, 12))
    chief = dice.pick(specialty.coined) if dice.chance(0.35) else dice.pick(specialty.acute)
    severity = dice.weighted(range(6), _SEVERITY_WEIGHTS)
    signs = frozenset(dice.sample(SIGNS, severity))
    return Case(
        lexicon=lexicon,
        patient=patient,
        kind=kind,
        specialty=specialty.name,
        admitted=admitted,
        discharged=discharged,
        today=discharged if kind["name"] == "discharge summary" else admitted,
        attending=person(lexicon, dice),
        family_doctor=person(lexicon, dice),
        colleague=person(lexicon, dice),
        hospital=hospital(lexicon, dice),
        elsewhere=hospital(lexicon, dice),
        chief=chief,
        signs=signs,
        vitals=_vitals(dice, signs),
    )


def _vitals(dice: Dice, signs: frozenset[str]) -> Vitals:
    systolic = dice.between(72, 90) if "hypotension" in signs else dice.between(104, 168)
    return Vitals(
        temperature=(dice.between(385, 402) if "fever" in signs else dice.between(361, 373)) / 10,
        pulse=dice.between(114, 148) if "tachycardia" in signs else dice.between(58, 96),
        systolic=systolic,
        diastolic=round(systolic * 0.58) + dice.between(-6, 6),
        breaths=dice.between(22, 32) if "hypoxia" in signs else dice.between(12, 18),
        saturation=dice.between(80, 89) if "hypoxia" in signs else dice.between(94, 99),
    )
