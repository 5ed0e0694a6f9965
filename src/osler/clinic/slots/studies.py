"""Slots for tests with their values, procedures and departments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from osler.clinic.lexicon import Lab
from osler.clinic.slots.base import Fill
from osler.clinic.slots.problems import side_and_site
from osler.clinic.template import Slot

if TYPE_CHECKING:
    from osler.clinic.scribe import Scribe


def lab_name(scribe: Scribe, lab: Lab) -> str:
    """A laboratory test by one of its names."""
    dice = scribe.dice
    name = dice.pick(lab.also) if lab.also and dice.chance(0.55) else lab.name
    if dice.chance(0.8):
        return name
    around: str = dice.pick(scribe.lexicon.notes["labs"]["around"])
    return around.format(name=name)


def lab_value(scribe: Scribe, lab: Lab) -> tuple[str, int]:
    """A value as printed, and whether it is below (-1), in (0) or above (1) the reference range."""
    dice = scribe.dice
    roll = dice.roll()
    if roll < 0.5 or (roll < 0.7 and lab.low <= 0):
        number, flag = lab.low + (lab.high - lab.low) * dice.roll(), 0
    elif roll < 0.7:
        number, flag = lab.low - min(lab.spread, lab.low * 0.4) * (0.1 + 0.9 * dice.roll()), -1
    else:
        number, flag = lab.high + lab.spread * (0.1 + 0.9 * dice.roll()), 1
    text = f"{number:.{lab.decimals}f}"
    return (text.replace(".", ",") if scribe.style.commas else text), flag


def _lab(scribe: Scribe, slot: Slot) -> None:
    lab = scribe.dice.pick(scribe.lexicon.labs)
    scribe.lab = lab
    scribe.put(slot, lab_name(scribe, lab), "TEST")


def _value(scribe: Scribe, slot: Slot) -> None:
    lab = scribe.lab or scribe.lexicon.labs[0]
    text, _ = lab_value(scribe, lab)
    scribe.say(f"{text} {lab.unit}" if lab.unit and scribe.dice.chance(0.6) else text)


def _imaging(scribe: Scribe, slot: Slot) -> None:
    name = scribe.dice.pick(scribe.lexicon.imaging[scribe.topic.problem.specialty])
    scribe.put(slot, _placed(scribe, name), "TEST")


def _procedure(scribe: Scribe, slot: Slot) -> None:
    kind = scribe.lexicon.operations if scribe.dice.chance(0.5) else scribe.lexicon.procedures
    name = scribe.dice.pick(kind[scribe.topic.problem.specialty])
    scribe.put(slot, _placed(scribe, name), "PROCEDURE")


def _operation(scribe: Scribe, slot: Slot) -> None:
    name = scribe.dice.pick(scribe.lexicon.operations[scribe.topic.problem.specialty])
    scribe.put(slot, _placed(scribe, name), "PROCEDURE")


def _placed(scribe: Scribe, name: str) -> str:
    if "{" not in name:
        return name
    side, site = side_and_site(scribe)
    return name.format(side=side, site=site)


def _department(scribe: Scribe, slot: Slot) -> None:
    scribe.put(slot, scribe.dice.pick(scribe.lexicon.departments), "DEPARTMENT")


def _ward(scribe: Scribe, slot: Slot) -> None:
    scribe.put(slot, scribe.dice.pick(scribe.lexicon.wards), "DEPARTMENT")


def _intensive(scribe: Scribe, slot: Slot) -> None:
    scribe.put(slot, scribe.dice.pick(scribe.lexicon.intensive), "DEPARTMENT")


STUDY_SLOTS: dict[str, Fill] = {
    "lab": _lab,
    "value": _value,
    "imaging": _imaging,
    "procedure": _procedure,
    "operation": _operation,
    "dept": _department,
    "ward": _ward,
    "icu": _intensive,
}
