"""The facts behind one note: the patient, the encounter, and the habits of the clinician who writes it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from osler.clinic.dice import Dice
from osler.clinic.labels import SPECIALTIES
from osler.clinic.lexicon import Lexicon, MedicalProblem, table

NOTES_PER_PATIENT = 2
SIGNS = ("fever", "tachycardia", "hypotension", "hypoxia", "icu")
"""The severity of a note is how many of these it states: four abnormal vital signs, and intensive care."""

DATE_FORMS = 6
"""How many ways each language has to write a full date."""

_VITALS = {
    "systolic": ("hypotension", (104, 168), (72, 90)),
    "temperature": ("fever", (361, 373), (385, 402)),
    "pulse": ("tachycardia", (58, 96), (114, 148)),
    "diastolic": ("", (-6, 6), (-6, 6)),
    "breaths": ("hypoxia", (12, 18), (22, 32)),
    "saturation": ("hypoxia", (94, 99), (80, 89)),
}
"""Each vital sign with the abnormal sign it shows, and its range without and with it. Diastolic is relative to systolic."""
_SEVERITY_WEIGHTS = (22, 22, 19, 16, 12, 9)
FIRST_DAY = date(2012, 1, 1)
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
_ALPHABETS = {"#": "0123456789", "@": _LETTERS, "&": _LETTERS.lower()}
_HEADINGS = ("{upper}:\n", "{upper}:\n", "{upper}: ", "{title}:\n", "{title}: ", "** {upper} **\n", "{upper}\n")
_BULLETS = ("- ", "- ", "* ", "{n}. ", "{n}) ", "")


@dataclass(frozen=True, slots=True)
class Person:
    """A name; Spanish people have two surnames in one string."""

    given: str
    surname: str
    sex: str

    @property
    def full(self) -> str:
        return f"{self.given} {self.surname}"


@dataclass(frozen=True, slots=True)
class Patient:
    """Facts that stay the same from one note of a patient to the next."""

    key: str
    person: Person
    birth: date
    chronic: tuple[MedicalProblem, ...]
    allergy: str
    kin: str
    relative: Person
    identity: dict[str, str]
    """Record number (`mrn`), insurance number (`plan`), phone, street and city."""
    profession: str


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
    doctors: dict[str, Person]
    """The attending physician (""), the family doctor ("pcp") and a colleague ("other")."""
    hospitals: dict[str, str]
    """The hospital of the encounter ("") and another one ("other")."""
    chief: MedicalProblem
    signs: frozenset[str]
    vitals: dict[str, int]
    """Temperature in tenths of a degree Celsius."""

    @property
    def age(self) -> int:
        """Age in years on the day of admission."""
        birth, day = self.patient.birth, self.admitted
        return day.year - birth.year - ((day.month, day.day) < (birth.month, birth.day))


@dataclass(frozen=True, slots=True)
class WritingStyle:
    """Habits of one clinician, the same through one note."""

    heading: str
    bullet: str
    width: int
    date: int
    habits: frozenset[str]
    pages: int


def make_case(lexicon: Lexicon, seed: int, number: int, dice: Dice) -> Case:
    """Draw the encounter behind note `number`; `dice` is the note's own stream."""
    patient = _make_patient(lexicon, seed, number // NOTES_PER_PATIENT)
    kinds = lexicon.notes["kinds"]
    kind = dice.weighted(kinds, [entry["weight"] for entry in kinds])
    specialty = lexicon.specialties[dice.pick(SPECIALTIES)]
    admitted = FIRST_DAY + timedelta(days=dice.between(0, 4600))
    discharged = admitted + timedelta(days=dice.between(1, 12))
    chief = dice.pick(specialty.coined) if dice.chance(0.35) else dice.pick(specialty.acute)
    severity = dice.weighted(range(6), _SEVERITY_WEIGHTS)
    signs = frozenset(dice.sample(SIGNS, severity))
    doctors = {role: draw_person(lexicon, dice) for role in ("", "pcp", "other")}
    hospitals = {role: draw_identity(lexicon, dice, "hospital") for role in ("", "other")}
    vitals = {name: dice.between(*(bad if sign in signs else good)) for name, (sign, good, bad) in _VITALS.items()}
    vitals["diastolic"] += round(vitals["systolic"] * 0.58)
    return Case(
        lexicon=lexicon,
        patient=patient,
        kind=kind,
        specialty=specialty.name,
        admitted=admitted,
        discharged=discharged,
        today=discharged if kind["name"] == "discharge summary" else admitted,
        doctors=doctors,
        hospitals=hospitals,
        chief=chief,
        signs=signs,
        vitals=vitals,
    )


def _make_patient(lexicon: Lexicon, seed: int, number: int) -> Patient:
    dice = Dice(seed, "patient", lexicon.language, lexicon.split, number)
    who, relative = draw_person(lexicon, dice), draw_person(lexicon, dice)
    if dice.chance(0.4):
        relative = Person(relative.given, who.surname, relative.sex)
    people = lexicon.people
    return Patient(
        key=f"{lexicon.language}-{lexicon.split}-p{number:06}",
        person=who,
        birth=date(1926, 1, 1) + timedelta(days=dice.between(0, 27000)),
        chronic=tuple(dice.sample(lexicon.chronic, dice.between(1, 4))),
        allergy=dice.pick(list(lexicon.classes)),
        kin=dice.pick(people["kin_female" if relative.sex == "F" else "kin_male"]),
        relative=relative,
        identity={name: draw_identity(lexicon, dice, name) for name in ("mrn", "plan", "phone", "street", "city")},
        profession=agree(dice.pick(people["professions"]), who.sex),
    )


def agree(words: str, gender: str) -> str:
    """The form of a Spanish word that fits a gender ("maestro/maestra", "izquierdo/izquierda")."""
    masculine, _, feminine = words.partition("/")
    return feminine if feminine and gender.upper() == "F" else masculine


def draw_style(lexicon: Lexicon, dice: Dice) -> WritingStyle:
    """Draw a clinician's habits. A few notes are very long, with `pages` of daily entries."""
    roll = dice.roll()
    return WritingStyle(
        heading=dice.pick(_HEADINGS),
        bullet=dice.pick(_BULLETS),
        width=dice.between(66, 84) if dice.chance(0.35) else 0,
        date=dice.between(0, DATE_FORMS - 1),
        habits=frozenset(habit for habit, chance in lexicon.notes["habits"].items() if dice.chance(chance)),
        pages=dice.between(14, 20) if roll < 0.015 else dice.between(5, 8) if roll < 0.06 else 0,
    )


def draw_person(lexicon: Lexicon, dice: Dice) -> Person:
    """Draw a name."""
    sex = dice.pick("FM")
    pool = lexicon.female if sex == "F" else lexicon.male
    given = dice.pick(pool)
    if lexicon.language == "es":
        if dice.chance(0.25):
            other = dice.pick(pool)
            given = given if other == given else f"{given} {other}"
        return Person(given, f"{dice.pick(lexicon.surnames)} {dice.pick(lexicon.surnames)}", sex)
    if dice.chance(0.2):
        given = f"{given} {dice.pick(_LETTERS)}."
    return Person(given, dice.pick(lexicon.surnames), sex)


def draw_identity(lexicon: Lexicon, dice: Dice, name: str) -> str:
    """Draw a place, an address or a number, from a generator below, a pattern or a list in the data files."""
    if name in _GENERATORS:
        return _GENERATORS[name](lexicon, dice)
    if name in lexicon.people["patterns"]:
        shape: str = dice.pick(lexicon.people["patterns"][name])
        return "".join(dice.pick(_ALPHABETS[mark]) if mark in _ALPHABETS else mark for mark in shape)
    return str(dice.pick(lexicon.people.get(name) or lexicon.studies[name]))


def _hospital(lexicon: Lexicon, dice: Dice) -> str:
    form: str = dice.pick(lexicon.people["hospital_forms"])
    place, name = dice.pick(lexicon.cities), dice.pick(lexicon.surnames)
    return form.format(place=place, name=name, saint=dice.pick(lexicon.people["saints"]))


def _street(lexicon: Lexicon, dice: Dice) -> str:
    people = lexicon.people
    name = dice.pick(people["street_names"] if dice.chance(0.4) else lexicon.surnames)
    kind, number = dice.pick(people["street_kinds"]), dice.between(1, 180)
    return str(people["street_form"].format(kind=kind, name=name, number=number))


def _organization(lexicon: Lexicon, dice: Dice) -> str:
    people = lexicon.people
    if dice.chance(0.3):
        return str(people["family_business"].format(name=dice.pick(lexicon.surnames)))
    head, tail = dice.pick(people["organization_heads"]), dice.pick(people["organization_tails"])
    return str(people["organization_form"].format(head=head, tail=tail))


def _url(lexicon: Lexicon, dice: Dice) -> str:
    host = f"{_ascii(dice.pick(lexicon.cities)).replace(' ', '')}.{dice.pick(lexicon.people['domains'])}"
    return dice.pick((f"www.{host}", f"https://{host}/results", f"http://portal.{host}", f"{host}/patients"))


_GENERATORS: dict[str, Callable[[Lexicon, Dice], str]] = {
    "city": lambda lexicon, dice: dice.pick(lexicon.cities),
    "hospital": _hospital,
    "organization": _organization,
    "street": _street,
    "url": _url,
}


def draw_email(lexicon: Lexicon, dice: Dice, owner: Person) -> str:
    """Draw an address at a domain reserved for examples."""
    given, surname = _ascii(owner.given.split()[0]), _ascii(owner.surname.split()[0])
    number = dice.between(1, 99)
    local = dice.pick((f"{given[0]}{surname}", f"{given}.{surname}", f"{surname}{number}", f"{surname}_{given}"))
    return f"{local}@{dice.pick(lexicon.people['domains'])}"


def _ascii(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return plain.lower().replace("'", "")


def write_date(day: date, language: str, form: int, kind: str = "full") -> str:
    """Write a date in one of a language's forms: `full`, `short` (no year) or `month`."""
    dates = table(language, "people")["dates"]
    month: str = dates["months"][day.month - 1]
    numbers = {"d": day.day, "m": day.month, "y": day.year, "yy": day.year % 100}
    return str(dates[kind][form].format(**numbers, month=month, mon=month[:3], MON=month[:3].upper()))
