"""De-identified files: what is written, what is not, who may read it, and that a killed run resumes to the same bytes."""

from __future__ import annotations

import csv
import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from osler.artifacts.deidentified import Deidentified
from osler.core.config import validate
from osler.core.errors import InputError, OutputError, RecipeError
from osler.stages.serve.deid.config import DeidRecipe
from osler.stages.serve.deid.engine import DeidEngine
from osler.stages.serve.deid.run import plan, run

NOTES = {
    "ruiz-ana_1.txt": "Mrs. Ana Ruiz, MRN: 1234567, was seen on 03/04/2017 by Dr. Bo Lindqvist.",
    "ruiz-ana_2.txt": "Mrs. Ruiz came back on 03/14/2017. Dr. Lindqvist agreed.",
    "sub/smith_1.txt": "Mr. Smith called 617-555-0123 on 05/06/2018.\r\n",
}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    for name, text in NOTES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return folder


def deid(files: Path, out: Path, **settings: Any) -> Deidentified:
    values = {"files": [files], "language": "en", **settings}
    made = run(validate(DeidRecipe, values, where=None), out)
    return Deidentified.open(made.path)


def texts(made: Deidentified) -> dict[str, str]:
    folder = made.path / "notes"
    return {p.relative_to(folder).as_posix(): p.read_bytes().decode() for p in sorted(folder.rglob("*.txt"))}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_notes_are_numbered_and_nothing_in_the_folder_names_a_patient(notes: Path, tmp_path: Path) -> None:
    before = {p: p.read_bytes() for p in notes.rglob("*.txt")}
    made = deid(notes, tmp_path / "out")
    assert texts(made) == {
        "note-000001.txt": "Mrs. [NAME], MRN: [MEDICALRECORD], was seen on 2017 by Dr. [NAME].",
        "note-000002.txt": "Mrs. [NAME] came back on 2017. Dr. [NAME] agreed.",
        "note-000003.txt": "Mr. [NAME] called [PHONE] on 2018.\r\n",
    }
    everything = "".join(p.read_text() for p in made.path.rglob("*") if p.is_file())
    assert not re.search(r"ruiz|smith|lindqvist|1234567|0123", everything, re.IGNORECASE)
    assert {p: p.read_bytes() for p in notes.rglob("*.txt")} == before
    assert made.counts == {"notes": 3, "replaced": 10}
    assert made.report()["categories"] == {
        "Dates and ages": 3,
        "Medical record numbers": 1,
        "Names": 5,
        "Telephone numbers": 1,
    }


def test_offsets_lead_back_to_the_originals(notes: Path, tmp_path: Path) -> None:
    made = deid(notes, tmp_path / "out", style="surrogate", dates="shift")
    offsets = made.offsets()
    for (name, new), old in zip(texts(made).items(), NOTES.values(), strict=True):
        found = offsets[name.removesuffix(".txt")]
        for word in re.finditer(r"\b(?:was|seen|came|back|called|agreed)\b", new):
            assert old[slice(*found.to_old(*word.span()))] == word.group()
        assert (found.old_length, found.new_length) == (len(old), len(new))


def test_names_are_kept_on_request_and_stay_inside(notes: Path, tmp_path: Path) -> None:
    made = deid(notes, tmp_path / "out", keep_names=True)
    assert set(texts(made)) == set(NOTES)
    lines = tmp_path / "rows.jsonl"
    lines.write_text('{"id": "../../x", "text": "Mr. Bo"}\n{"id": "../../x", "text": "Mr. Li"}\n')
    other = deid(lines, tmp_path / "other", keep_names=True, to="text")
    assert sorted(texts(other)) == ["x.txt", "x_2.txt"]


def test_surrogates_are_consistent_within_a_patient(notes: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    settings = {"style": "surrogate", "dates": "shift", "key_file": key, "patient_pattern": "^[^_]+"}
    made = texts(deid(notes, tmp_path / "out", **settings))
    assert mode(key) == 0o600
    assert len(key.read_bytes().strip()) >= 32
    name = re.match(r"Mrs\. \w+ (\w+),", made["note-000001.txt"])
    assert name
    assert made["note-000002.txt"].startswith(f"Mrs. {name[1]} ")
    assert texts(deid(notes, tmp_path / "again", **settings)) == made
    alone = texts(deid(notes, tmp_path / "alone", **{**settings, "patient_pattern": None}))
    assert not alone["note-000002.txt"].startswith(f"Mrs. {name[1]} ")


def test_key_files(notes: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("short")
    key.chmod(0o600)
    with pytest.raises(InputError, match="at least 32"):
        deid(notes, tmp_path / "out", dates="shift", key_file=key)
    key.write_text("k" * 40)
    key.chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        deid(notes, tmp_path / "out", dates="shift", key_file=key)
    recipe = DeidRecipe(files=(notes,), dates="shift", key_file=tmp_path / "new")
    assert any("a new key is made" in line for line in plan(recipe, tmp_path / "out"))
    assert not (tmp_path / "new").exists()


def test_a_note_that_cannot_be_processed_is_not_written(notes: Path, tmp_path: Path, monkeypatch) -> None:
    (notes / "bad.txt").write_bytes(b"Dr. Lindqvist caf\xe9")
    real = DeidEngine.deidentify

    def fails(self: DeidEngine, note: Any, findings: Any, keyed: Any) -> Any:
        if "05/06" in note.text:
            raise ValueError(note.text)
        return real(self, note, findings, keyed)

    monkeypatch.setattr(DeidEngine, "deidentify", fails)
    made = deid(notes, tmp_path / "out")
    assert sorted(texts(made)) == ["note-000002.txt", "note-000003.txt"]
    assert [(item.note, item.problem) for item in made.skipped()] == [
        ("note-000001", "not UTF-8 at byte 17"),
        ("note-000004", "what was found could not be replaced"),
    ]
    assert made.counts["skipped"] == 2
    assert "Lindqvist" not in (made.path / "skipped.jsonl").read_text()


def test_if_no_note_can_be_processed_nothing_is_made(tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"caf\xe9")
    with pytest.raises(InputError, match="no note could be processed"):
        deid(bad, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_tables_give_tables_with_the_columns_asked_for(tmp_path: Path) -> None:
    table = tmp_path / "notes.csv"
    table.write_text(
        'id,note,patient,ward,mother\n7,"Mr. Smith, seen 03/04/2017",p1,A,Ann Lee\n8,Mr. Smith again,,B,Ann Lee\n'
    )
    settings = {"text_columns": ["note"], "patient_column": "patient", "keep_columns": ["ward"]}
    made = deid(table, tmp_path / "out", **settings)
    with open(made.path / "notes.csv", newline="") as rows:
        assert list(csv.reader(rows)) == [["id", "text", "ward"], ["note-000001", "Mr. [NAME], seen 2017", "A"]]
    assert [item.problem for item in made.skipped()] == ["it has no value in 'patient'"]


def test_a_note_with_carriage_returns_is_one_row(tmp_path: Path) -> None:
    table = tmp_path / "notes.csv"
    table.write_bytes(b'id,text\n7,"Mr. Smith was seen.\rNo fever.\r"\n')
    with open(deid(table, tmp_path / "out").path / "notes.csv", newline="") as rows:
        assert list(csv.reader(rows, strict=True))[1:] == [["note-000001", "Mr. [NAME] was seen.\rNo fever.\r"]]


def test_json_lines_and_pairs(tmp_path: Path) -> None:
    lines = tmp_path / "notes.jsonl"
    lines.write_text('{"id": "a", "text": "Mr. Smith", "file": "x"}\nnonsense\n{"id": "c", "text": "Dr. Bo"}\n')
    made = deid(lines, tmp_path / "out")
    rows = [json.loads(line) for line in (made.path / "notes.jsonl").read_text().splitlines()]
    assert rows == [{"id": "note-000001", "text": "Mr. [NAME]"}, {"id": "note-000003", "text": "Dr. [NAME]"}]
    assert [item.note for item in made.skipped()] == ["note-000002"]
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"first": "Mr. Smith", "second": "Mr. Bo"}\n')
    with pytest.raises(InputError, match="pair of texts"):
        deid(pairs, tmp_path / "pairs")


def test_private_files_are_made_on_request_and_only_their_owner_may_read_them(notes: Path, tmp_path: Path) -> None:
    made = deid(notes, tmp_path / "out", write_mapping=True, review=True)
    mapping, page = made.path / "mapping.jsonl", made.path / "review.html"
    assert (mode(mapping), mode(page)) == (0o600, 0o600)
    first = json.loads(mapping.read_text().splitlines()[0])
    assert first == {
        "note": "note-000001",
        "id": first["id"],
        "kind": "NAME",
        "original": "Ana Ruiz",
        "replacement": "[NAME]",
    }
    assert "protected health information" in page.read_text()
    assert not (deid(notes, tmp_path / "plain").path / "mapping.jsonl").exists()


def test_the_output_stays_out_of_the_input(notes: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="inside of the folder"):
        deid(notes, notes / "out")
    with pytest.raises(OutputError, match="inside of this folder"):
        deid(notes, tmp_path)
    with pytest.raises(RecipeError, match="regular expression"):
        deid(notes, tmp_path / "out", patient_pattern="(")


@pytest.mark.parametrize("keyed", [True, False])
def test_a_killed_run_resumes_to_the_same_bytes(keyed: bool, notes: Path, tmp_path: Path, monkeypatch) -> None:
    key = tmp_path / "key"
    key.write_text("k" * 40)
    key.chmod(0o600)
    settings = {
        "style": "surrogate",
        "dates": "shift",
        "batch": 1,
        "key_file": key if keyed else None,
        "write_mapping": True,
    }
    out = tmp_path / "out"
    partial = tmp_path / "out.partial"
    searched: list[int] = []
    real = DeidEngine.find
    stop_at = [2]

    def find(self: DeidEngine, several: Any) -> Any:
        searched.append(len(several))
        if len(searched) == stop_at[0]:
            raise KeyboardInterrupt
        return real(self, several)

    monkeypatch.setattr(DeidEngine, "find", find)
    with pytest.raises(KeyboardInterrupt):
        deid(notes, out, **settings)
    assert (partial / ".key").exists() != keyed
    secret = None if keyed else (partial / ".key").read_bytes()
    if secret:
        assert mode(partial / ".key") == 0o600
    stop_at[0] = 0
    made = deid(notes, out, **settings)
    assert len(searched) == 4  # the first note was not searched again
    assert not partial.exists()
    assert not list(made.path.rglob(".key"))
    assert not (made.path / "found").exists()
    whole = {
        p.name: p.read_bytes() for p in made.path.rglob("*.*") if p.name != "recipe.toml" and p.name != "manifest.json"
    }
    if secret:  # the same random key, given as a file, makes the same notes
        key.write_bytes(secret)
    other = deid(notes, tmp_path / "other", **{**settings, "key_file": key})
    assert {p.name: p.read_bytes() for p in other.path.rglob("*.*") if p.name in whole} == whole


def test_the_same_command_reuses_what_is_there(notes: Path, tmp_path: Path) -> None:
    deid(notes, tmp_path / "out")
    again = run(validate(DeidRecipe, {"files": [notes], "language": "en"}, where=None), tmp_path / "out")
    assert again.reused
    (notes / "new.txt").write_text("Mr. New")
    with pytest.raises(OutputError, match="other inputs"):
        deid(notes, tmp_path / "out")


def test_the_plan_says_what_is_not_covered_and_what_holds_phi(notes: Path, tmp_path: Path) -> None:
    lines = plan(DeidRecipe(files=(notes,), style="surrogate", review=True, write_mapping=True), tmp_path / "out")
    assert any("Other names in running text are not found" in line for line in lines)
    assert any("mapping.jsonl and review.html will hold PHI" in line for line in lines)
    assert any("random and not kept" in line for line in lines)
