"""Rows of tables and Parquet files as notes."""

from __future__ import annotations

import gzip

import pytest

from osler.core.errors import RecipeError
from osler.stages.serve import note_rows
from osler.stages.serve.config import NoteInputs
from osler.stages.serve.inputs import Notes
from osler.text.document import Document, TextPair


def notes(*paths, **more) -> Notes:
    return Notes(NoteInputs(files=paths, **more))


@pytest.fixture
def parquet(tmp_path):
    arrow, writer = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table(
        {
            "id": [10, 11, 12],
            "text": ["Aspirin 😀", None, "Fever"],
            "ward": ["ED", "ICU", None],
            "codes": [["a"], [], None],
        }
    )
    writer.write_table(table, tmp_path / "notes.parquet", row_group_size=1)
    return tmp_path / "notes.parquet"


def test_parquet_is_read_by_column(parquet, tmp_path, monkeypatch):
    monkeypatch.setattr(note_rows, "_PARQUET_ROWS", 2)
    packed = tmp_path / "packed.parquet.gz"
    packed.write_bytes(gzip.compress(parquet.read_bytes()))
    for path in (parquet, packed):
        read = notes(path)
        assert read.count() == 3
        assert list(read) == [Document("10", "Aspirin 😀", meta={"ward": "ED"}), Document("12", "Fever")]
        [skipped] = read.skipped
        assert skipped.where.endswith("parquet: row 2")
        assert skipped.problem == "'text' is missing"
    assert [note.text for note in notes(parquet, text_columns=("ward",))] == ["ED", "ICU"]
    pairs = list(notes(parquet, text_columns=("text", "ward")))
    assert pairs == [TextPair("10", "Aspirin 😀", "ED")]
    with pytest.raises(RecipeError, match=r"no column 'txt'. Did you mean 'text'\?"):
        notes(parquet, text_columns=("txt",))


def test_a_parquet_file_that_is_none_is_skipped(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 CANARY")
    (tmp_path / "b.txt").write_text("x")
    read = notes(tmp_path / "a.parquet", tmp_path / "b.txt")
    assert [note.id for note in read] == ["b"]
    assert read.skipped == [("a.parquet", "the Parquet file is damaged or cut short", "Copy or download it again")]


def test_an_empty_table_has_no_notes(tmp_path):
    (tmp_path / "a.csv").write_text("")
    (tmp_path / "b.jsonl").write_text("\n \n")
    (tmp_path / "c.csv").write_text("id,text\n")
    read = notes(tmp_path / "a.csv", tmp_path / "b.jsonl", tmp_path / "c.csv")
    assert (read.count(), list(read), read.skipped) == (0, [], [])


def test_a_table_with_two_columns_of_one_name_is_not_read(tmp_path):
    (tmp_path / "a.csv").write_text("id,text,text,,\n1,CANARY,Aspirin,,\n")
    (tmp_path / "b.csv").write_text("id,text,,\n1,Aspirin,,\n")  # columns without a name are common
    read = notes(tmp_path / "a.csv", tmp_path / "b.csv")
    assert [note.text for note in read] == ["Aspirin"]
    [skipped] = read.skipped
    assert skipped.problem == "columns 2 and 3 have the same name"
    assert skipped.where.endswith("a.csv:1")
