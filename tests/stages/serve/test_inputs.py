"""What `osler annotate` reads: notes, JSON Lines, tables and standard input."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from osler.core.config import validate
from osler.core.errors import InputError, RecipeError
from osler.stages.serve.config import AnnotateRecipe
from osler.stages.serve.inputs import Notes
from osler.text.document import TextPair


def notes(*files, **more) -> Notes:
    return Notes(AnnotateRecipe(files=files, bundle="b", **more))


@pytest.mark.parametrize("more", [{}, {"text_columns": ("texto",)}])
def test_a_first_row_of_data_is_not_quoted(tmp_path, more):
    path = tmp_path / "notes.csv"
    path.write_text("1,Jane CANARY has a cough since Monday\n2,She is well\n")
    with pytest.raises(RecipeError, match="is there a header") as caught:
        notes(path, **more)
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_a_table_is_read_by_column_and_not_as_one_note(tmp_path, suffix):
    path = tmp_path / f"notes{suffix}"
    rows = [["note_id", "texto", "service"], ["7", "Con fiebre", "ED"], ["8", "Sin tos", ""]]
    if suffix == ".jsonl":
        path.write_text("".join(f'{{"note_id": {a}, "texto": "{b}", "service": "{c}"}}\n' for a, b, c in rows[1:]))
    else:
        mark = "," if suffix == ".csv" else "\t"
        path.write_text("".join(mark.join(row) + "\n" for row in rows))
    with pytest.raises(RecipeError, match=r"--text-column NAME .*Columns: note_id, texto, service"):
        notes(path)
    with pytest.raises(RecipeError, match=r"'texo'. Did you mean 'texto'\? Columns: note_id, texto, service"):
        notes(path, text_columns=("texo",))
    found = list(notes(path, text_columns=("texto",), id_column="note_id"))
    assert [(note.id, note.text, dict(note.meta)) for note in found] == [
        ("7", "Con fiebre", {"service": "ED"}),
        ("8", "Sin tos", {}),
    ]


def test_a_csv_with_semicolons_and_line_breaks_in_quotes_is_read(tmp_path):
    (tmp_path / "a.csv").write_text('id;text\n1;"line one\nline; two"\n')
    [note] = notes(tmp_path / "a.csv")
    assert (note.id, note.text) == ("1", "line one\nline; two")


def test_a_table_in_another_encoding_is_skipped_or_read(tmp_path):
    (tmp_path / "a.csv").write_bytes("id,text\n1,más\n".encode("latin-1"))
    plain = notes(tmp_path / "a.csv")
    assert list(plain) == []
    assert plain.skipped[0][:2] == ("a.csv", "not UTF-8 at byte 11")
    [note] = notes(tmp_path / "a.csv", encoding="latin-1")
    assert note.text == "más"


def test_encoding_is_for_files_that_are_not_utf8(tmp_path):
    (tmp_path / "a.txt").write_text("más", encoding="utf-8")
    (tmp_path / "b.txt").write_text("más", encoding="utf-16")
    assert [note.text for note in notes(tmp_path, encoding="utf-16")] == ["más", "más"]
    left = notes(tmp_path)
    assert [note.text for note in left] == ["más"]
    assert "--encoding utf-16" in left.skipped[0].fix
    with pytest.raises(RecipeError, match="unknown encoding 'latin-x'"):
        validate(AnnotateRecipe, {"files": ["a"], "bundle": "b", "encoding": "latin-x"}, where="")


def test_files_that_are_no_text_are_refused_with_advice(tmp_path):
    for name, advice in {"a.json": "JSON Lines", "a.pdf": "Extract the text", "a.7z": "Unpack it"}.items():
        (tmp_path / name).write_bytes(b"x")
        with pytest.raises(InputError, match=advice):
            notes(tmp_path / name)
    (tmp_path / "note.txt").write_text("x")
    (tmp_path / "notes.csv").write_text("text\nx\n")
    assert notes(tmp_path).left_out == {".json": 1, ".pdf": 1, ".7z": 1, ".csv": 1}


def test_a_damaged_archive_is_skipped_among_others_and_an_error_alone(tmp_path):
    (tmp_path / "a.zip").write_bytes(b"x")
    with pytest.raises(InputError, match="damaged or cut short"):
        notes(tmp_path / "a.zip")
    (tmp_path / "note.txt").write_text("x")
    read = notes(tmp_path)
    for _ in range(2):  # also in a second pass
        assert [note.id for note in read] == ["note"]
        assert [item.where for item in read.skipped] == ["a.zip"]


def test_files_of_one_name_in_two_folders_have_two_ids(tmp_path):
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1.txt").write_text("x")
    (tmp_path / "2.txt").write_text("y")
    assert [note.id for note in notes(tmp_path)] == ["2", "a/1", "b/1"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"Aspirin\n", [("stdin", "Aspirin\n")]),
        (b'{"id": "x", "text": "Aspirin"}\n{"text": "Fever"}\n', [("x", "Aspirin"), ("2", "Fever")]),
    ],
)
def test_standard_input_is_one_note_or_json_lines(monkeypatch, data, expected):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    read = notes("-")
    assert read.count() == len(expected)
    assert [(note.id, note.text) for note in read] == expected
    assert len(read.digest()) == 64


def test_nothing_on_standard_input_is_an_error(monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO()))
    with pytest.raises(RecipeError, match="nothing was piped in"):
        list(notes("-"))


def test_usual_names_of_pairs_are_found(tmp_path):
    for first, second in (("text_a", "text_b"), ("sentence1", "sentence2"), ("Premise", "Hypothesis")):
        (tmp_path / "p.csv").write_text(f"{first},{second}\na,b\n")
        assert list(notes(tmp_path / "p.csv")) == [TextPair("1", "a", "b")]


def test_ids_do_not_depend_on_what_else_is_read(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.txt").write_text("x")
    assert [note.id for note in notes(tmp_path)] == ["a/1"]
    assert [note.id for note in notes(tmp_path / "a" / "1.txt")] == ["1"]


def test_every_note_has_an_id_of_its_own(tmp_path):
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1.txt").write_text(folder)
        (tmp_path / folder / "rows.csv").write_text(f"text\n{folder}1\n{folder}2\n")
    a, b = tmp_path / "a", tmp_path / "b"
    assert [note.id for note in notes(a, b)] == ["a/1", "b/1"]
    assert [note.id for note in notes(a / "1.txt", a / "1.txt")] == ["a/1", "a/1~2"]
    found = [note.id for note in notes(a / "rows.csv", b / "rows.csv")]
    assert found == ["a/rows-1", "a/rows-2", "b/rows-1", "b/rows-2"]
    (tmp_path / "own.jsonl").write_text('{"id": "x", "text": "1"}\n' * 3 + '{"id": "x~2", "text": "2"}\n')
    read = notes(tmp_path / "own.jsonl")
    assert [note.id for note in read] == ["x", "x~2", "x~3", "x~2~2"]
    assert read.renamed == 3


def test_a_line_that_is_broken_does_not_end_a_file(tmp_path):
    good = b'{"text": "a"}\n'
    bad = b'{"text": "b\x00"}\n' + b'{"text": "\\u0000"}\n' + b'{"text": "\\ud800"}\n' + b'["text"]\n'
    (tmp_path / "a.jsonl").write_bytes(good + bad + good)
    read = notes(tmp_path / "a.jsonl")
    assert [note.id for note in read] == ["1", "6"]
    assert [item.where for item in read.skipped] == [f"a.jsonl:{line}" for line in (2, 3, 4, 5)]
    assert all("NUL character" in item.problem or "lone surrogate" in item.problem for item in read.skipped[:3])
    assert read.count() == 6


def test_a_renamed_file_is_another_input(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "b.txt").write_text("x")
    assert notes(tmp_path / "a.txt").digest() != notes(tmp_path / "b.txt").digest()


def test_how_files_are_read_is_part_of_what_was_read(tmp_path):
    (tmp_path / "a.csv").write_text("text,other\na,b\n")
    path = tmp_path / "a.csv"
    assert notes(path).digest() != notes(path, text_columns=("other",)).digest()
