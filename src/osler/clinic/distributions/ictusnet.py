"""ICTUSnet: variables of Spanish stroke reports in brat files, with normalised values as notes and some suggested labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta

from osler.clinic.builder import NoteBuilder
from osler.clinic.case import DATE_FORMS, write_date
from osler.clinic.dice import Dice
from osler.clinic.distributions.base import DistributionWriter
from osler.clinic.lexicon import Lexicon, lexicon, table
from osler.clinic.template import Slot, parse, resolve
from osler.text.document import Document

_SUGGESTED = "_SUG_"
_SUGGESTED_SHARE = 0.06
_OPTIONAL_CHANCE = 0.65

Values = dict[str, tuple[str, str]]
"""Each fact of a report as it is written, and its normalised value."""


def _facts(words: Lexicon, dice: Dice) -> Values:
    """Draw the facts of one report: times in order, findings and drugs."""
    texts = table("es", "ictusnet")
    values: Values = {}
    form = dice.between(0, DATE_FORMS - 1)

    def day(name: str, when: date) -> None:
        values[name] = (write_date(when, "es", form), when.isoformat())

    def moment(name: str, when: datetime) -> None:
        day(name, when.date())
        written = f"{when.hour}:{when.minute:02}" if dice.chance(0.7) else f"{when.hour:02}.{when.minute:02}"
        values[f"{name}_at"] = (written, f"{when.hour:02}:{when.minute:02}")

    def number(name: str, low: int, high: int) -> None:
        values[name] = (str(dice.between(low, high)),) * 2

    def drug(name: str, group: str) -> None:
        drugs = words.classes[group]
        chosen = dice.pick(drugs.coined if drugs.coined and dice.chance(0.3) else drugs.listed)
        strength = dice.pick(drugs.strengths) if dice.chance(0.6) else ""
        values[name] = (f"{chosen} {strength}".strip(), chosen)

    now = datetime(2014, 1, 1) + timedelta(days=dice.between(0, 2900), minutes=dice.between(0, 1439))
    moment("onset", now)
    reached = {}
    for name, (low, high) in texts["minutes"].items():
        now += timedelta(minutes=dice.between(low, high))
        reached[name] = now
        moment(name, now)
    day("treated", reached["bolus"].date())
    day("admitted", reached["arrived"].date())
    moment("discharged", now + timedelta(days=dice.between(2, 20), minutes=dice.between(0, 600)))
    for name, until in (("door_needle", "bolus"), ("door_puncture", "puncture")):
        minutes = (reached[until] - reached["arrived"]).seconds // 60
        values[name] = (f"{minutes} {dice.pick(('min', 'minutos'))}", f"{minutes} min")
    side = dice.pick(("derech", "izquierd"))
    values["side_f"], values["side_m"] = (f"{side}a", f"{side}a"), (f"{side}o", f"{side}a")
    for name in ("diagnosis", "artery", "place"):
        surface = dice.pick(list(texts[name]))
        values[name] = (surface.format(side=f"{side}a"), texts[name][surface])
    for name, options in (*texts["values"].items(), ("history2", texts["values"]["history"])):
        values[name] = (dice.pick(options),) * 2
    for name, (low, high) in texts["numbers"].items():
        number(name, low, high)
        if name == "nihss_before":
            number("nihss_after", 0, int(values[name][0]))
    for place in ("home", "out"):
        drug(f"antiplatelet_{place}", "antiplatelet")
        drug(f"anticoagulant_{place}", "anticoagulant")
    drug("other_drug", dice.pick(("statin", "ace-inhibitor", "antidiabetic", "ppi")))
    return values


def _report(name: str, words: Lexicon, dice: Dice) -> Document:
    values, builder = _facts(words, dice), NoteBuilder()
    for section in table("es", "ictusnet")["sections"]:
        builder.text(f"{dice.pick(section['title'])}\n")
        for line in section["lines"]:
            if line.startswith("?") and not dice.chance(_OPTIONAL_CHANCE):
                continue
            for node in resolve(parse(line.removeprefix("?")).nodes, dice):
                if isinstance(node, str):
                    builder.text(node)
                elif node.literal and isinstance(node.literal[0], Slot):
                    surface, normal = values[node.literal[0].kind]
                    builder.mark(surface, node.kind, {"AnnotatorNotes": normal})
                else:
                    builder.text(values[node.kind][0])
            builder.text("\n")
        builder.text("\n")
    return builder.build(name, labels=(), value=None, meta={})


def make(writer: DistributionWriter) -> None:
    """Write one folder: the corpus has no official split. Some labels are marked as a machine's suggestions."""
    words, suggest = lexicon("es", "train"), Dice(writer.seed, "ictusnet", "suggestions")

    def reports() -> Iterator[Document]:
        for number in range(writer.sizes["train"]):
            report = _report(f"{90_000 + number}.utf8", words, Dice(writer.seed, "ictusnet", "train", number))
            marks = (_SUGGESTED if suggest.chance(_SUGGESTED_SHARE) else "" for _ in report.spans)
            spans = (replace(span, label=mark + span.label) for mark, span in zip(marks, report.spans, strict=True))
            yield report.with_(spans=tuple(spans))

    writer.save("train", reports(), "ictusnet")
