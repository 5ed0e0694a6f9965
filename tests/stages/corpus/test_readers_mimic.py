"""MIMIC-III NOTEEVENTS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from osler.core.errors import InputError, RecipeError
from osler.formats.mimic import HEADER, line
from osler.stages.corpus.documents import BadRecord, LeftOut, RawDocument

ReadAll = Callable[..., list[Any]]
MARKED = 'Seen at [**Hospital1 18**] on [**2101-10-20**] by "Dr." [**Last Name (STitle) 123**],\nat [**Age over 90 **].'


def note(number: int, **cells: str) -> bytes:
    usual = {"ROW_ID": str(number), "SUBJECT_ID": "90", "CHARTDATE": "2101-10-20", "CATEGORY": "Nursing"}
    return line(usual | {"TEXT": f"note {number}"} | cells)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "NOTEEVENTS.csv"
    rows = [
        note(1, TEXT=MARKED, CATEGORY="Physician "),
        note(2, ISERROR="1"),
        note(3, SUBJECT_ID="91"),
        note(4, CATEGORY="Nursing/other"),
    ]
    path.write_bytes(HEADER + b"".join(rows) + b"5,90\n")
    return path


def test_notes_have_patient_date_and_category(table: Path, read_all: ReadAll) -> None:
    first, error, third, _, bad = read_all(table, reader="mimic")
    facts = {"patient": "90", "date": "2101-10-20", "section": "Physician"}
    assert first == RawDocument(2, MARKED, "1", facts)
    assert error == LeftOut(4, "mimic.errors", "2")
    assert (third.id, third.facts["patient"]) == ("3", "91")
    assert isinstance(bad, BadRecord)
    assert (bad.row, bad.reason) == (7, "the row has 2 cells, not 11")
    assert read_all(table, size=64, reader="mimic") == read_all(table, reader="mimic")


def test_categories_errors_and_marks_are_chosen(table: Path, read_all: ReadAll) -> None:
    options = {"categories": ["Physician", "Nursing"], "errors": True, "marks": "replace"}
    found = read_all(table, reader="mimic", options=options)
    assert [item.id for item in found if isinstance(item, RawDocument)] == ["1", "2", "3"]
    assert found[0].text == 'Seen at [HOSPITAL] on [DATE] by "Dr." [NAME],\nat [AGE].'
    assert found[3] == LeftOut(6, "mimic.categories", "4")
    with pytest.raises(RecipeError, match=r"unknown category 'physicians'; did you mean 'Physician'"):
        read_all(table, reader="mimic", options={"categories": ["physicians"]})


def test_left_out_notes_are_in_the_ledger(table: Path, build, documents, ledger) -> None:
    corpus = build({"files": [str(table)], "reader": "mimic"}, filters={})
    assert [row["patient"] for row in documents(corpus)] == ["90", "91", "90"]
    rows = [(row["step"], row["row"], row["id"], row["reason"]) for row in ledger(corpus)]
    assert rows == [
        ("select", 4, "2", "mimic.errors"),
        ("read", 7, "NOTEEVENTS.csv:7", "the row has 2 cells, not 11"),
    ]


def test_the_description_is_the_title(tmp_path: Path, read_all: ReadAll) -> None:
    path = tmp_path / "NOTEEVENTS.csv"
    cells = {"ROW_ID": "1", "DESCRIPTION": "CHEST (PORTABLE AP)", "CATEGORY": "Radiology", "TEXT": "Clear."}
    path.write_bytes(HEADER + line(cells))
    [document] = read_all(path, reader="mimic")
    assert document.facts == {"section": "Radiology", "title": "CHEST (PORTABLE AP)"}


def test_lower_case_columns_and_other_tables(table: Path, read_all: ReadAll, tmp_path: Path) -> None:
    head, rest = table.read_bytes().split(b"\n", 1)
    table.write_bytes(head.lower() + b"\n" + rest)
    assert read_all(table, reader="mimic")[0].id == "1"
    other = tmp_path / "other.csv"
    other.write_bytes(b"id,text\n1,a\n")
    with pytest.raises(InputError, match="columns are missing: ROW_ID, ISERROR"):
        read_all(other, reader="mimic")
