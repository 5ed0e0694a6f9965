"""Slots for people, places, dates and numbers: PHI, and the plain numbers that look like it."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

from osler.clinic import dates, people
from osler.clinic.slots.base import Fill
from osler.clinic.template import Slot

if TYPE_CHECKING:
    from osler.clinic.scribe import Scribe


def _modifier(slot: Slot) -> str:
    return slot.modifiers[0] if slot.modifiers else ""


def _patient(scribe: Scribe, slot: Slot) -> None:
    who = scribe.case.patient.person
    form = _modifier(slot)
    name = {"listed": who.listed, "last": who.surname, "first": who.given.split()[0]}.get(form, who.full)
    if form == "last" and scribe.lexicon.language == "es" and scribe.dice.chance(0.6):
        name = who.surname.split()[0]
    scribe.put(slot, name, "PATIENT")


def _relative(scribe: Scribe, slot: Slot) -> None:
    who = scribe.case.patient.relative
    scribe.put(slot, who.given.split()[0] if _modifier(slot) == "first" else who.full, "PATIENT")


def _doctor(scribe: Scribe, slot: Slot) -> None:
    case, form = scribe.case, _modifier(slot)
    who = case.family_doctor if form.startswith("pcp") else case.colleague if form == "other" else case.attending
    name = who.full
    if form == "initials":
        name = who.initials
    elif form.endswith("last") or (form == "other" and scribe.dice.chance(0.5)):
        name = who.surname if scribe.lexicon.language == "en" else who.surname.split()[0]
    scribe.put(slot, name, "DOCTOR")


def _doctor_title(scribe: Scribe, slot: Slot) -> None:
    """Dr. or Dra., with the article or preposition that Spanish joins to it: {dr.pcp.del}."""
    case, form = scribe.case, _modifier(slot)
    who = case.family_doctor if form == "pcp" else case.colleague if form == "other" else case.attending
    titles: dict[str, str] = scribe.lexicon.notes["doctor_titles"][who.sex]
    title = titles[slot.modifiers[-1] if slot.modifiers and slot.modifiers[-1] in titles else "plain"]
    scribe.say(title[0].upper() + title[1:] if slot.capital else title)


def _hospital(scribe: Scribe, slot: Slot) -> None:
    case, form = scribe.case, _modifier(slot)
    name = case.elsewhere if form == "other" else case.hospital
    short = people.abbreviation(name)
    if len(short) > 2 and (form == "short" or scribe.dice.chance(0.2)):
        name = short
    scribe.put(slot, name, "HOSPITAL")


def _date(scribe: Scribe, slot: Slot) -> None:
    case, dice, form = scribe.case, scribe.dice, _modifier(slot)
    language = scribe.lexicon.language
    if form == "past":
        day = case.admitted - timedelta(days=dice.between(2, 400))
    elif form == "future":
        day = case.discharged + timedelta(days=dice.between(3, 60))
    elif form == "stay":
        day = case.admitted + timedelta(days=dice.between(0, (case.discharged - case.admitted).days))
    else:
        day = {"admit": case.admitted, "discharge": case.discharged}.get(form, case.today)
    if form in ("past", "future", "stay") and dice.chance(0.4):
        scribe.put(slot, dates.short(day, dice, language), "DATE")
    else:
        scribe.put(slot, _written(scribe, day), "DATE")


def _written(scribe: Scribe, day: date) -> str:
    dice = scribe.dice
    style = scribe.style.date if dice.chance(0.75) else dice.between(0, dates.STYLES - 1)
    return dates.full(day, style, scribe.lexicon.language)


def _birth(scribe: Scribe, slot: Slot) -> None:
    scribe.put(slot, _written(scribe, scribe.case.patient.birth), "DATE")


def _month(scribe: Scribe, slot: Slot) -> None:
    day = scribe.case.admitted - timedelta(days=scribe.dice.between(40, 1500))
    scribe.put(slot, dates.month(day, scribe.dice, scribe.lexicon.language), "DATE")


def _year(scribe: Scribe, slot: Slot) -> None:
    back = scribe.dice.between(1, max(2, min(25, scribe.case.age - 4)))
    scribe.put(slot, str(scribe.case.admitted.year - back), "DATE")


def _plain_year(scribe: Scribe, slot: Slot) -> None:
    scribe.say(str(scribe.case.admitted.year - scribe.dice.between(1, 9)))


def _age(scribe: Scribe, slot: Slot) -> None:
    scribe.put(slot, str(scribe.case.age), "AGE")


def _other_age(scribe: Scribe, slot: Slot) -> None:
    scribe.put(slot, str(scribe.dice.between(31, 94)), "AGE")


def _number(scribe: Scribe, slot: Slot) -> None:
    scribe.say(str(scribe.dice.between(int(slot.modifiers[0]), int(slot.modifiers[1]))))


def _phone(scribe: Scribe, slot: Slot) -> None:
    own = scribe.dice.chance(0.5)
    number = scribe.case.patient.phone if own else people.pattern(scribe.lexicon, scribe.dice, "phone")
    scribe.put(slot, number, "PHONE")


def _fax(scribe: Scribe, slot: Slot) -> None:
    scribe.put(slot, people.pattern(scribe.lexicon, scribe.dice, "phone"), "FAX")


def _email(scribe: Scribe, slot: Slot) -> None:
    case = scribe.case
    owner = case.attending if "doctor" in slot.modifiers else case.patient.relative
    scribe.put(slot, people.email(scribe.lexicon, scribe.dice, owner), "EMAIL")


def _url(scribe: Scribe, slot: Slot) -> None:
    scribe.put(slot, people.url(scribe.lexicon, scribe.dice), "URL")


def _username(scribe: Scribe, slot: Slot) -> None:
    scribe.put(slot, people.pattern(scribe.lexicon, scribe.dice, "username").lower(), "USERNAME")


def _identifier(pattern: str, kind: str) -> Fill:
    def fill(scribe: Scribe, slot: Slot) -> None:
        patient = scribe.case.patient
        own = {"mrn": patient.mrn, "plan": patient.plan}.get(pattern)
        scribe.put(slot, own or people.pattern(scribe.lexicon, scribe.dice, pattern), "ID", {"kind": kind})

    return fill


def _street(scribe: Scribe, slot: Slot) -> None:
    own = scribe.dice.chance(0.4)
    scribe.put(slot, scribe.case.patient.street if own else people.street(scribe.lexicon, scribe.dice), "STREET")


def _city(scribe: Scribe, slot: Slot) -> None:
    own = scribe.dice.chance(0.4)
    scribe.put(slot, scribe.case.patient.city if own else scribe.dice.pick(scribe.lexicon.cities), "CITY")


def _profession(scribe: Scribe, slot: Slot) -> None:
    scribe.put(slot, scribe.case.patient.profession, "PROFESSION")


def _organization(scribe: Scribe, slot: Slot) -> None:
    scribe.put(slot, people.organization(scribe.lexicon, scribe.dice), "ORGANIZATION")


def _zip(scribe: Scribe, slot: Slot) -> None:
    scribe.put(slot, people.pattern(scribe.lexicon, scribe.dice, "zip"), "ZIP")


def _listed(key: str, label: str) -> Fill:
    def fill(scribe: Scribe, slot: Slot) -> None:
        scribe.put(slot, scribe.dice.pick(scribe.lexicon.people[key]), label)

    return fill


def _kin(scribe: Scribe, slot: Slot) -> None:
    kin = scribe.case.patient.kin
    scribe.say(kin.capitalize() if slot.capital else kin)


def _title(scribe: Scribe, slot: Slot) -> None:
    scribe.say(scribe.title)


IDENTITY_SLOTS: dict[str, Fill] = {
    "patient": _patient,
    "relative": _relative,
    "doctor": _doctor,
    "dr": _doctor_title,
    "hospital": _hospital,
    "date": _date,
    "dob": _birth,
    "month": _month,
    "year": _year,
    "years": _plain_year,
    "age": _age,
    "agenumber": _other_age,
    "num": _number,
    "phone": _phone,
    "fax": _fax,
    "email": _email,
    "url": _url,
    "username": _username,
    "mrn": _identifier("mrn", "MEDICALRECORD"),
    "account": _identifier("account", "ACCOUNT"),
    "plan": _identifier("plan", "HEALTHPLAN"),
    "ssn": _identifier("ssn", "SSN"),
    "license": _identifier("license", "LICENSE"),
    "device": _identifier("device", "DEVICE"),
    "job": _identifier("job", "IDNUM"),
    "street": _street,
    "city": _city,
    "state": _listed("states", "STATE"),
    "country": _listed("countries", "COUNTRY"),
    "zip": _zip,
    "profession": _profession,
    "organization": _organization,
    "kin": _kin,
    "title": _title,
}
