"""Slots for drugs, prescriptions and their parts, and for vital signs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from osler.clinic.slots.base import Fill
from osler.clinic.template import Slot

if TYPE_CHECKING:
    from osler.clinic.lexicon import DrugClass
    from osler.clinic.scribe import Drug, Scribe

_ELSE = frozenset({"other", "third", "group"})


def _which(scribe: Scribe, slot: Slot) -> Drug:
    """The drug a slot means: the sentence's own, another one, or the one the patient does not tolerate."""
    if "allergy" in slot.modifiers:
        return scribe.drug_of(scribe.case.patient.allergy)
    if _ELSE.isdisjoint(slot.modifiers):
        return scribe.prescribed or scribe.topic.drug
    taken = {scribe.topic.drug.group.name, *scribe.others}
    names = [name for name in scribe.lexicon.classes if name not in taken]
    drug = scribe.drug_of(scribe.dice.pick(names))
    scribe.others.add(drug.group.name)
    return drug


def _drug(scribe: Scribe, slot: Slot) -> None:
    drug = _which(scribe, slot)
    scribe.drug = drug
    if "group" in slot.modifiers:
        scribe.put(slot, scribe.dice.pick(drug.group.groups), "DRUG", {"kind": "group"})
    else:
        scribe.put(slot, drug.name, "DRUG", {"kind": drug.kind})


def _rx(scribe: Scribe, slot: Slot) -> None:
    """A whole prescription: drug, strength, route, frequency and so on, tied together."""
    drug = _which(scribe, slot)
    scribe.prescribed, scribe.way = drug, scribe.dice.pick(drug.group.ways)
    span = scribe.prescription(scribe.dice.pick(scribe.lexicon.sig[scribe.way]))
    scribe.prescribed, scribe.way = None, ""
    scribe.keep(slot, span)


def _group(scribe: Scribe, slot: Slot) -> DrugClass:
    if slot.modifiers and slot.modifiers[0] in scribe.lexicon.classes:
        return scribe.lexicon.classes[slot.modifiers[0]]
    return (scribe.prescribed or scribe.drug or scribe.topic.drug).group


def _way(scribe: Scribe, slot: Slot) -> str:
    if slot.modifiers:
        return slot.modifiers[0]
    return scribe.way or _group(scribe, slot).ways[0]


def _strength(scribe: Scribe, slot: Slot) -> None:
    dice, group = scribe.dice, _group(scribe, slot)
    number, unit = dice.pick(group.strengths), dice.pick(group.units)
    if scribe.lexicon.language == "es" and scribe.style.commas:
        number = number.replace(".", "").replace(",", ".") if "," in number else number.replace(".", ",")
    scribe.put(slot, f"{number}{unit}" if scribe.style.tight_units else f"{number} {unit}", "STRENGTH")


def _form(scribe: Scribe, slot: Slot) -> None:
    scribe.put(slot, scribe.dice.pick(_group(scribe, slot).forms), "FORM")


def _spelled(scribe: Scribe, words: str) -> str:
    """A phrase with its numbers filled in ("every {n} hours")."""
    if "{" not in words:
        return words
    return words.format(**{key: scribe.dice.pick(options) for key, options in scribe.lexicon.sig["words"].items()})


def _by_way(key: str, label: str) -> Fill:
    def fill(scribe: Scribe, slot: Slot) -> None:
        options = scribe.lexicon.sig[key][_way(scribe, slot)]
        scribe.put(slot, _spelled(scribe, scribe.dice.pick(options)), label)

    return fill


def _duration(scribe: Scribe, slot: Slot) -> None:
    scribe.put(slot, _spelled(scribe, scribe.dice.pick(scribe.lexicon.sig["durations"])), "DURATION")


def _temperature(scribe: Scribe, slot: Slot) -> None:
    celsius = scribe.case.vitals.temperature
    if scribe.style.fahrenheit:
        scribe.say(f"{celsius * 9 / 5 + 32:.1f}")
    else:
        text = f"{celsius:.1f}"
        scribe.say(text.replace(".", ",") if scribe.style.commas else text)


def _pulse(scribe: Scribe, slot: Slot) -> None:
    scribe.say(str(scribe.case.vitals.pulse))


def _pressure(scribe: Scribe, slot: Slot) -> None:
    scribe.say(f"{scribe.case.vitals.systolic}/{scribe.case.vitals.diastolic}")


def _breaths(scribe: Scribe, slot: Slot) -> None:
    scribe.say(str(scribe.case.vitals.breaths))


def _saturation(scribe: Scribe, slot: Slot) -> None:
    scribe.say(str(scribe.case.vitals.saturation))


PRESCRIPTION_SLOTS: dict[str, Fill] = {
    "drug": _drug,
    "rx": _rx,
    "strength": _strength,
    "form": _form,
    "dose": _by_way("doses", "DOSE"),
    "frequency": _by_way("frequencies", "FREQUENCY"),
    "route": _by_way("routes", "ROUTE"),
    "duration": _duration,
    "temp": _temperature,
    "pulse": _pulse,
    "bp": _pressure,
    "rr": _breaths,
    "sat": _saturation,
}
