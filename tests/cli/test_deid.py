"""`osler deid` as a user calls it: exit codes, messages and the two commands under one name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import osler
from osler.cli.main import app

RUNNER = CliRunner()


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text("Mrs. Ana Ruiz was seen on 03/04/2017.")
    return folder


def test_notes_are_de_identified_and_the_folder_is_printed(notes: Path) -> None:
    # The folder has the name of the hidden command.
    result = RUNNER.invoke(app, ["deid", "notes", "--language", "en", "--style", "mask", "--out", "out"])
    assert result.exit_code == 0, result.output
    assert Path("out/notes/note-000001.txt").read_text() == "Mrs. *** was seen on 2017."
    assert "Other names in running text are not found" in result.output


def test_a_skipped_note_gives_exit_code_3(notes: Path) -> None:
    (notes / "b.txt").write_bytes(b"caf\xe9")
    result = RUNNER.invoke(app, ["deid", str(notes), "--language", "en", "--out", "out"])
    assert result.exit_code == 3
    assert "note-000002: not UTF-8" in result.output
    assert "b.txt" not in result.output


def test_a_dry_run_does_nothing(notes: Path) -> None:
    result = RUNNER.invoke(app, ["deid", "notes", "--dates", "shift", "--key-file", "key", "--out", "out", "--dry-run"])
    assert result.exit_code == 0
    assert "a new key is made in key" in result.output
    assert not Path("out").exists()
    assert not Path("key").exists()


def test_evaluate_is_a_command_of_its_own(notes: Path) -> None:
    result = RUNNER.invoke(app, ["deid", "evaluate", "--task", "clinic-phi-en", "--planted", "0", "--out", "scores"])
    assert result.exit_code == 0, result.output
    metrics = json.loads(Path("scores/metrics.json").read_text())
    assert metrics["safe_harbor_recall"] > 0.9
    assert {"Names", "Telephone numbers", "Professions (beyond Safe Harbor)"} <= metrics["categories"].keys()
    assert metrics["other_words_removed"] < 0.01


def test_help_of_both(notes: Path) -> None:
    one, other = RUNNER.invoke(app, ["deid", "--help"]), RUNNER.invoke(app, ["deid", "evaluate", "--help"])
    assert "--patient-column" in one.output
    assert "--planted" in other.output
    assert "--patient-column" not in other.output


def test_the_same_from_python(notes: Path) -> None:
    made = osler.deid(files=["notes"], language="en", out="out")
    assert made.offsets()["note-000001"].to_old(5, 11) == (5, 13)
    (notes / "b.txt").write_bytes(b"caf\xe9")
    with pytest.warns(UserWarning, match="1 notes were not written"):
        osler.deid(files=["notes"], language="en", out="other")
    scores = osler.deid_evaluate(task="clinic-phi-en", planted=0, out="scores")
    assert scores.counts["notes"] == 80
