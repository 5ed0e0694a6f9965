from __future__ import annotations

import pytest
from typer.testing import CliRunner

from osler.cli.main import app
from osler.core.config import read_toml

NOTE = "PARACETAMOL 1 g/8 h\n\n\n\nNa    134    [135-145]\n"


@pytest.fixture(autouse=True)
def _notes(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    for number in range(2):
        (tmp_path / "notes" / f"{number}.txt").write_text(NOTE)


def osler(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["corpus", "build", *arguments], env={"COLUMNS": "200"})
    return f"{done.exit_code} {' '.join(done.output.split())} {done.exception}"


def test_one_option_names_a_cleaning_with_files_and_with_a_recipe(tmp_path) -> None:
    assert osler("notes", "--clean", "none", "--out", "none").startswith("0 ")
    assert "Documents exactly as they are" in osler("notes", "--clean", "none", "--dry-run")
    (tmp_path / "r.toml").write_text('sources = ["notes"]\n')
    assert osler("--recipe", "r.toml", "--clean", "clinical", "--out", "clinical").startswith("0 ")
    assert read_toml(tmp_path / "clinical" / "recipe.toml")["filters"]["length"]["min_characters"] == 10
    for out, documents in {"none": 2, "clinical": 1}.items():
        assert f"{documents} documents" in (tmp_path / out / "README.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "pieces"),
    [
        (["--clean", "clinic"], ("--clean", "carrino2022", "clinical", "none")),
        (["--preset", "clinical"], ("2 ", "No such option", "--preset")),
    ],
)
def test_a_wrong_name_is_told(arguments, pieces) -> None:
    text = osler("notes", *arguments)
    assert all(piece in text for piece in pieces)
