"""ICTUSnet: the variables of Spanish stroke reports in brat files, normalised values as notes, some labels marked as suggestions."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from osler.clinic.builder import NoteBuilder
from osler.clinic.case import DATE_FORMS, write_date
from osler.clinic.dice import Dice
from osler.clinic.distributions.base import Distribution, Order, Package, Tally, save
from osler.clinic.labels import Split
from osler.clinic.lexicon import Lexicon, lexicon
from osler.text.document import Document

_FOLDER = "ictusnet"
_SUGGESTED = "_SUG_"
_SUGGESTIONS = 0.06
_OPTIONAL = 0.65
_PIECE = re.compile(r"\{(\w*)=(\w+)\}|<([^>]*)>")
_MINUTES = {
    "arrived": (40, 240),
    "scan": (15, 40),
    "bolus": (10, 40),
    "intraarterial": (10, 30),
    "puncture": (15, 50),
    "series": (10, 30),
    "open": (10, 50),
    "end": (5, 20),
}
"""What happens after the onset, in this order, and how many minutes after the event before it."""

Value = tuple[str, str]
"""How a report writes something, and its normalised value."""


@cache
def _table() -> dict[str, Any]:
    path = resources.files("osler.clinic") / "data" / "es" / "ictusnet.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


class _Facts:
    """What one report tells: times in order, findings and drugs, each as it is written and normalised."""

    def __init__(self, words: Lexicon, dice: Dice) -> None:
        self._dice = dice
        self._style = dice.between(0, DATE_FORMS - 1)
        self.values: dict[str, Value] = {}
        self._times()
        side = dice.pick(("derech", "izquierd"))
        for name, ending in (("side_f", "a"), ("side_m", "o")):
            self.values[name] = (side + ending, "derecha" if side == "derech" else "izquierda")
        table = _table()
        for name in ("diagnosis", "artery", "place"):
            surface = dice.pick(list(table[name]))
            self.values[name] = (surface.format(side=f"{side}a"), table[name][surface])
        for name, options in table["values"].items():
            self.values[name] = (dice.pick(options),) * 2
        self.values["history2"] = (dice.pick(table["values"]["history"]),) * 2
        for name, low, high in (("age", 45, 95), ("aspects", 5, 10), ("nihss_before", 2, 25)):
            self._number(name, low, high)
        self._number("nihss_after", 0, int(self.values["nihss_before"][0]))
        for name in ("rankin_before", "rankin_after"):
            self._number(name, 0, 4)
        for place in ("home", "out"):
            self._drug(words, f"antiplatelet_{place}", "antiplatelet")
            self._drug(words, f"anticoagulant_{place}", "anticoagulant")
        self._drug(words, "other_drug", dice.pick(("statin", "ace-inhibitor", "antidiabetic", "ppi")))

    def _times(self) -> None:
        dice = self._dice
        now = datetime(2014, 1, 1) + timedelta(days=dice.between(0, 2900), minutes=dice.between(0, 1439))
        self._moment("onset", now)
        reached = {"onset": now}
        for name, (low, high) in _MINUTES.items():
            now += timedelta(minutes=dice.between(low, high))
            reached[name] = now
            self._moment(name, now)
        self._day("treated", reached["bolus"].date())
        self._day("admitted", reached["arrived"].date())
        leaving = now + timedelta(days=dice.between(2, 20), minutes=dice.between(0, 600))
        self._moment("discharged", leaving)
        for name, until in (("door_needle", "bolus"), ("door_puncture", "puncture")):
            minutes = (reached[until] - reached["arrived"]).seconds // 60
            self.values[name] = (f"{minutes} {dice.pick(('min', 'minutos'))}", f"{minutes} min")

    def _moment(self, name: str, when: datetime) -> None:
        self._day(name, when.date())
        written = f"{when.hour}:{when.minute:02}" if self._dice.chance(0.7) else f"{when.hour:02}.{when.minute:02}"
        self.values[f"{name}_at"] = (written, f"{when.hour:02}:{when.minute:02}")

    def _day(self, name: str, day: date) -> None:
        self.values[name] = (write_date(day, "es", self._style), day.isoformat())

    def _number(self, name: str, low: int, high: int) -> None:
        self.values[name] = (str(self._dice.between(low, high)),) * 2

    def _drug(self, words: Lexicon, name: str, group: str) -> None:
        drugs = words.classes[group]
        drug = self._dice.pick(drugs.coined if drugs.coined and self._dice.chance(0.3) else drugs.listed)
        strength = self._dice.pick(drugs.strengths) if self._dice.chance(0.6) else ""
        self.values[name] = (f"{drug} {strength}".strip(), drug)


def _report(name: str, words: Lexicon, dice: Dice) -> Document:
    facts, builder = _Facts(words, dice), NoteBuilder()
    for section in _table()["sections"]:
        builder.text(f"{dice.pick(section['title'])}\n")
        for line in section["lines"]:
            if line.startswith("?") and not dice.chance(_OPTIONAL):
                continue
            _write(builder, line.removeprefix("?"), facts.values, dice)
            builder.text("\n")
        builder.text("\n")
    return builder.build(name, labels=(), value=0.0, meta={}).with_(value=None)


def _write(builder: NoteBuilder, line: str, values: dict[str, Value], dice: Dice) -> None:
    position = 0
    for match in _PIECE.finditer(line):
        builder.text(line[position : match.start()])
        label, slot, options = match.groups()
        if options is not None:
            builder.text(dice.pick(options.split("|")))
        elif label:
            surface, normal = values[slot]
            builder.mark(surface, label, {"AnnotatorNotes": normal})
        else:
            builder.text(values[slot][0])
        position = match.end()
    builder.text(line[position:])


def _reports(n: int, seed: int, split: Split) -> Iterator[Document]:
    words = lexicon("es", split)
    return (_report(str(90_000 + number), words, Dice(seed, "ictusnet", split, number)) for number in range(n))


def _shipped(report: Document, dice: Dice) -> Document:
    """The report under its file name, some labels marked as a machine's suggestions."""
    spans = tuple(
        replace(span, label=_SUGGESTED + span.label) if dice.chance(_SUGGESTIONS) else span for span in report.spans
    )
    return report.with_(id=f"{report.id}.utf8", spans=spans)


def make(order: Order, folder: Path) -> Tally:
    """Write one folder: the corpus has no official split."""
    tally = Tally()
    dice = Dice(order.seed, "ictusnet", "suggestions")
    reports = tally.through("train", _reports(order.n, order.seed, "train"))
    save("brat", (_shipped(report, dice) for report in reports), folder / _FOLDER)
    return tally


DISTRIBUTION = Distribution(
    name="ictusnet",
    title="ICTUSnet: variables of Spanish stroke discharge reports",
    format="brat",
    splits={"train": (f"*{_FOLDER}/*",)},
    packages=(Package(_FOLDER, f"{_FOLDER}.zip"),),
    make=make,
    options={"label_prefix": _SUGGESTED},
)
