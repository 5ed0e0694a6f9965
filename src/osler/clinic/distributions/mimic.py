"""MIMIC-III NOTEEVENTS.csv: one table of notes, with the quoting, the empty cells and the marked errors of the real one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

from osler.clinic.dice import Dice
from osler.clinic.distributions.base import Distribution, Order, Package, Tally
from osler.clinic.distributions.clinical import clinic_notes
from osler.clinic.distributions.placeholders import deidentified
from osler.formats.mimic import HEADER, line
from osler.formats.output import output_file
from osler.text.document import Document

_FILE = "NOTEEVENTS.csv"
_CATEGORIES = {
    "discharge summary": ("Discharge summary", "Report"),
    "admission note": ("Physician ", "Physician Resident Admission Note"),
    "progress note": ("Physician ", "Physician Resident Progress Note"),
    "clinic letter": ("General", "Generic Note"),
    "emergency note": ("Nursing", "Nursing Progress Note"),
    "pharmacy review": ("Pharmacy", "Generic Note"),
}
"""Kind of note to category and description; some categories end in a blank in the real table, and here too."""
_TIMED = frozenset({"Physician ", "Nursing", "General", "Pharmacy"})
_ERRORS = 0.04


def _row(note: Document, number: int, dice: Dice, patients: dict[str, int]) -> tuple[dict[str, str], Document]:
    patient = patients.setdefault(note.meta["patient"], len(patients) + 1)
    category, description = _CATEGORIES[note.meta["kind"]]
    day = date(2101, 1, 1) + timedelta(days=dice.between(0, 36000))
    text = deidentified(note).text.replace("pleasant", '"pleasant"')
    cells = {
        "ROW_ID": str(number),
        "SUBJECT_ID": str(90_000 + patient),
        "HADM_ID": "" if dice.chance(0.1) else str(900_000 + 3 * number),
        "CHARTDATE": day.isoformat(),
        "CATEGORY": category,
        "DESCRIPTION": description,
        "TEXT": text,
    }
    if category in _TIMED:
        time = f"{day.isoformat()} {dice.between(0, 23):02}:{dice.between(0, 59):02}:00"
        cells |= {"CHARTTIME": time, "STORETIME": time, "CGID": str(dice.between(14_000, 21_000))}
    if dice.chance(_ERRORS):
        cells["ISERROR"] = "1"
    return cells, Document(cells["ROW_ID"], text)


def make(order: Order, folder: Path) -> Tally:
    """Write the table; notes marked as errors are in it but not counted, since readers drop them."""
    tally = Tally()
    dice, patients = Dice(order.seed, "noteevents"), dict[str, int]()

    def rows() -> Iterator[Document]:
        with output_file(folder / _FILE) as stream:
            stream.write(HEADER)
            for number, note in enumerate(clinic_notes(order.n, order.seed, "train"), start=1):
                cells, document = _row(note, number, dice, patients)
                stream.write(line(cells))
                if "ISERROR" not in cells:
                    yield document

    for _ in tally.through("train", rows()):
        pass
    return tally


DISTRIBUTION = Distribution(
    name="mimic-iii-notes",
    title="MIMIC-III NOTEEVENTS: clinical notes without labels, for a corpus",
    format="mimic",
    splits={"train": ("*NOTEEVENTS.csv",)},
    packages=(Package(_FILE, f"{_FILE}.gz"),),
    make=make,
)
