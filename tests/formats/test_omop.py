"""OMOP tables: the columns of CDM 5.4 in order, numbers that join, and a date that the caller decides."""

from __future__ import annotations

import csv
from datetime import date
from pathlib import Path

import pytest

from osler import __version__
from osler.core.errors import RecipeError
from osler.formats.base import configure
from osler.formats.registry import get_format
from osler.text.document import Document, Span

TEXT = "The patient denies fever.\nHad flu, in 2019."
NOTES = [
    Document(
        "a",
        TEXT,
        (
            Span.at(19, 24, "Problem", id="T1", score=0.5, attributes={"negated": "yes", "note": "x=1, y"}),
            Span.at(30, 33, "Problem", id="T2", attributes={"historical": "yes"}),
        ),
        meta={"person_id": "12", "date": "2020-01-02", "title": "ED"},
    ),
    Document("b", "x" * 600, (Span.at(100, 500, "Long", id="T1", attributes={"family": "yes"}),), labels=("l",)),
]


def tables(folder: Path, **options) -> tuple[list[dict[str, str]], list[dict[str, str]], dict[str, int]]:
    loss = configure(get_format("omop"), {"date": "2026-11-18", **options}).write(NOTES, folder)
    found = []
    for name in ("note", "note_nlp"):
        with open(folder / f"{name}.csv", encoding="utf-8", newline="") as stream:
            found.append(list(csv.DictReader(stream)))
    return found[0], found[1], dict(loss.counts)


def test_columns_are_those_of_the_cdm(tmp_path):
    tables(tmp_path / "out")
    assert (tmp_path / "out" / "note.csv").read_text().splitlines()[0] == (
        "note_id,person_id,note_date,note_datetime,note_type_concept_id,note_class_concept_id,note_title,note_text,"
        "encoding_concept_id,language_concept_id,provider_id,visit_occurrence_id,visit_detail_id,note_source_value,"
        "note_event_id,note_event_field_concept_id"
    )
    assert (tmp_path / "out" / "note_nlp.csv").read_text().splitlines()[0] == (
        "note_nlp_id,note_id,section_concept_id,snippet,offset,lexical_variant,note_nlp_concept_id,"
        "note_nlp_source_concept_id,nlp_system,nlp_date,nlp_datetime,term_exists,term_temporal,term_modifiers"
    )


def test_a_text_with_carriage_returns_is_one_row(tmp_path):
    text = "Asthma.\rNo fever.\r"
    note = Document("a", text, (Span.at(11, 16, "Problem", id="T1"),))
    configure(get_format("omop"), {"date": "2026-11-18"}).write([note], tmp_path / "out")
    for name, column, expected in (("note", "note_text", text), ("note_nlp", "snippet", text)):
        with open(tmp_path / "out" / f"{name}.csv", encoding="utf-8", newline="") as stream:
            [row] = csv.DictReader(stream, strict=True)
        assert row[column] == expected


def test_mentions_and_notes(tmp_path):
    notes, found, loss = tables(tmp_path / "out", first_note=100)
    assert [(note["note_id"], note["note_source_value"], note["note_text"]) for note in notes] == [
        ("100", "a", TEXT),
        ("101", "b", "x" * 600),
    ]
    assert (notes[0]["person_id"], notes[0]["note_date"], notes[0]["note_title"]) == ("12", "2020-01-02", "ED")
    assert (notes[1]["person_id"], notes[1]["note_date"]) == ("", "")
    fever, _, long = found
    assert [row["note_nlp_id"] for row in found] == ["1", "2", "3"]
    assert [row["note_id"] for row in found] == ["100", "100", "101"]
    assert (fever["offset"], fever["lexical_variant"], fever["note_nlp_concept_id"]) == ("19", "fever", "0")
    assert TEXT[int(fever["offset"]) :].startswith(fever["lexical_variant"])
    assert fever["lexical_variant"] in fever["snippet"]
    assert fever["term_modifiers"] == "label=Problem,score=0.5,id=T1,negated=yes,note=x 1 y"
    assert (fever["nlp_system"], fever["nlp_date"]) == (f"osler {__version__}", "2026-11-18")
    assert [(row["term_exists"], row["term_temporal"]) for row in found] == [
        ("N", "Present"),
        ("Y", "Past"),
        ("N", "Present"),
    ]
    assert (len(long["lexical_variant"]), len(long["snippet"])) == (250, 250)
    assert loss == {"values cut to the length of their column": 1, "metadata filled in": 2, "document labels": 1}


def test_a_date_of_toml_is_a_date(tmp_path):
    _, found, _ = tables(tmp_path / "out", date=date(2020, 1, 2))
    assert found[0]["nlp_datetime"] == "2020-01-02 00:00:00"


@pytest.mark.parametrize("day", ["18.11.2026", "2026-02-30"])
def test_a_date_that_is_none_is_refused(tmp_path, day):
    with pytest.raises(RecipeError, match="is not a date"):
        tables(tmp_path / "out", date=day)
