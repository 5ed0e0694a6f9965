"""Slots for drugs, prescriptions and their parts, and for vital signs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from osler.clinic.dice import Dice
from osler.clinic.slots.base import Fill
from osler.clinic.template import Slot

if TYPE_CHECKING:
    from osler.clinic.scribe import Drug, Scribe

_ELSE = frozenset({"other", "third", "group"})


def _which(scribe: Scribe, slot: Slot) -> Drug:
    """The drug a slot means: the sentence's own, another one, or the one the patient does not tolerate."""
    if "allergy" in slot.modifiers:
        return scribe.drug_of(scribe.case.patient.allergy)
    if "relief" in slot.modifiers:
        return scribe.drug_of(scribe.dice.pick(scribe.lexicon.sig["relief"]))
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
    ways = drug.group.ways
    scribe.prescribed, scribe.way = drug, ways[0] if "home" in slot.modifiers else scribe.dice.pick(ways)
    span = scribe.prescription(scribe.dice.pick(scribe.lexicon.sig[scribe.way]))
    scribe.prescribed, scribe.way, scribe.form = None, "", ""
    scribe.keep(slot, span)


def _meant(scribe: Scribe, slot: Slot) -> Drug:
    """The drug that a strength, form or frequency belongs to."""
    if slot.modifiers and slot.modifiers[0] in scribe.lexicon.classes:
        return scribe.drug_of(slot.modifiers[0])
    return scribe.prescribed or scribe.drug or scribe.topic.drug


def _way(scribe: Scribe, slot: Slot) -> str:
    for modifier in slot.modifiers:
        if modifier in scribe.lexicon.sig["routes"]:
            return modifier
    return scribe.way or _meant(scribe, slot).group.ways[0]


def _strength(scribe: Scribe, slot: Slot) -> None:
    dice, drug = scribe.dice, _meant(scribe, slot)
    name = slot.modifiers[1] if len(slot.modifiers) > 1 else drug.name
    amount = scribe.strengths.get(name)
    if amount is None or dice.chance(0.2):
        amount = _varied(dice, dice.pick(drug.group.strengths_of.get(name) or drug.group.strengths))
        scribe.strengths[name] = amount
    if scribe.style.tight_units:
        amount = amount.replace(" ", "", 1)
    if scribe.style.commas:
        amount = amount.replace(",", "").replace(".", ",")
    scribe.put(slot, amount, "STRENGTH")


def _varied(dice: Dice, amount: str) -> str:
    """An amount as listed, or a multiple of it, or a range: prescribers write more numbers than a list can hold."""
    roll = dice.roll()
    if roll > 0.55:
        return amount
    number, _, unit = amount.partition(" ")
    listed = float(number.replace(",", ""))
    if roll < 0.08:
        return f"{listed:g}-{2 * listed:g} {unit}"
    value = listed * dice.between(1, 14) / 4
    return f"{value:g} {unit}" if value < 20 else f"{value:,.0f} {unit}"


def _form(scribe: Scribe, slot: Slot) -> None:
    scribe.form = scribe.dice.pick(_meant(scribe, slot).group.forms)
    scribe.put(slot, scribe.form, "FORM")


def _spelled(scribe: Scribe, words: str) -> str:
    """A phrase with its numbers filled in ("every {n} hours")."""
    if "{" not in words:
        return words
    return words.format(**{key: scribe.dice.pick(options) for key, options in scribe.lexicon.sig["words"].items()})


def _dose(scribe: Scribe, slot: Slot) -> None:
    """How much to take, in the unit the drug comes in."""
    form = scribe.form or _meant(scribe, slot).group.forms[0]
    units: dict[str, list[str]] = scribe.lexicon.sig["units"]
    one, many = next((words for part, words in units.items() if part in form), next(iter(units.values())))
    words: str = scribe.dice.pick(scribe.lexicon.sig["doses"])
    scribe.put(slot, _spelled(scribe, words.replace("{unit}", one).replace("{units}", many)), "DOSE")


def _frequency(scribe: Scribe, slot: Slot) -> None:
    own = () if slot.modifiers else _meant(scribe, slot).group.frequencies
    options = own or scribe.lexicon.sig["frequencies"][_way(scribe, slot)]
    scribe.put(slot, _spelled(scribe, scribe.dice.pick(options)), "FREQUENCY")


def _route(scribe: Scribe, slot: Slot) -> None:
    scribe.put(slot, scribe.dice.pick(scribe.lexicon.sig["routes"][_way(scribe, slot)]), "ROUTE")


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
    "dose": _dose,
    "frequency": _frequency,
    "route": _route,
    "duration": _duration,
    "temp": _temperature,
    "pulse": _pulse,
    "bp": _pressure,
    "rr": _breaths,
    "sat": _saturation,
}
