"""MIMIC-III NOTEEVENTS.csv: one table of notes, with the quoting, empty cells and marked errors of the real one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from osler.clinic.dice import Dice
from osler.clinic.distributions.base import DistributionWriter
from osler.clinic.distributions.rewriting import deidentified
from osler.clinic.lexicon import table
from osler.clinic.notes import notes
from osler.formats.mimic import HEADER, line
from osler.formats.output import output_file
from osler.text.document import Document

_ERRORS = 0.04


def _rows(n: int, seed: int) -> Iterator[dict[str, str]]:
    dice, patients = Dice(seed, "noteevents"), dict[str, int]()
    for number, note in enumerate(notes(n, language="en", seed=seed, split="train"), start=1):
        patient = patients.setdefault(note.meta["patient"], len(patients) + 1)
        category, description = table("en", "mimic")["categories"][note.meta["kind"]]
        day = (date(2101, 1, 1) + timedelta(days=dice.between(0, 36000))).isoformat()
        cells = {
            "ROW_ID": str(number),
            "SUBJECT_ID": str(90_000 + patient),
            "HADM_ID": "" if dice.chance(0.1) else str(900_000 + 3 * number),
            "CHARTDATE": day,
            "CATEGORY": category,
            "DESCRIPTION": description,
            "TEXT": deidentified(note).text.replace("pleasant", '"pleasant"'),
        }
        if category != "Discharge summary":
            time = f"{day} {dice.between(0, 23):02}:{dice.between(0, 59):02}:00"
            cells |= {"CHARTTIME": time, "STORETIME": time, "CGID": str(dice.between(14_000, 21_000))}
        if dice.chance(_ERRORS):
            cells["ISERROR"] = "1"
        yield cells


def make(writer: DistributionWriter) -> None:
    """Write the table. Notes marked as errors are not counted, since readers drop them."""
    with output_file(writer.folder / writer.packages[0]) as stream:
        stream.write(HEADER)
        for cells in _rows(writer.sizes["train"], writer.seed):
            stream.write(line(cells))
            if "ISERROR" not in cells:
                writer.count("train", Document(cells["ROW_ID"], cells["TEXT"]))
