"""`osler study` on the command line: a dry run checks what the run checks, and a run ends with its table and verdict."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from osler.cli.main import app
from osler.core.errors import OslerError
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare

sys.path.append(str(Path(__file__).parents[1] / "stages" / "study"))
import fake_runner

RECIPE = """
tasks = ["{folder}/clinic-entities-en", "{folder}/clinic-phi-en"]
seeds = [1, 2]
workers = 1
[models.weak]
model = "weak"
[models.a-model-with-quite-a-long-name]
model = "strong"
"""


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    for name in ("clinic-entities-en", "clinic-phi-en"):
        prepare(PrepareRecipe(task=name, options={"train": 3, "dev": 1, "test": 12}), folder / name)
    return folder


@pytest.fixture
def recipe(tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A recipe whose runs are faked."""
    monkeypatch.chdir(tmp_path)
    fake_runner.FakeRunner(tmp_path / "log", missed={"weak": 8}).install(monkeypatch.setattr)
    Path("study.toml").write_text(RECIPE.format(folder=tasks))
    return "study.toml"


def study(*arguments: str) -> str:
    """What a command prints on both streams; raises the error it ends with."""
    result = CliRunner().invoke(app, ["study", *arguments], catch_exceptions=False)
    return result.output


@pytest.mark.parametrize("command", ["run", "pairwise"])
def test_a_dry_run_ends_with_the_error_of_the_run(tmp_path: Path, tasks: Path, command: str) -> None:
    found = tasks / "clinic-phi-en"
    missing = 'tasks = ["no/task", "{0}"]\n[models.a]\nmodel = "no/model"\n'
    unknown = 'tasks = ["{0}", "{1}"]\n[models.a]\nmodel = "no/model"\n'
    path = tmp_path / "study.toml"
    for text, told in ((missing, "1 task, no such folder: no/task; 1 model"), (unknown, "no/model")):
        path.write_text(text.format(found, tasks / "clinic-entities-en"))
        errors = []
        for more in ([], ["--dry-run"]):
            result = CliRunner().invoke(app, ["study", command, str(path), "--out", str(tmp_path / "out"), *more])
            errors.append((type(result.exception), str(result.exception)))
        assert told in errors[0][1]
        assert errors[0] == errors[1]
    assert [path.name for path in tmp_path.iterdir()] == ["study.toml"]


def test_a_dry_run_says_how_many_runs_what_is_chosen_and_what_is_done(recipe: str) -> None:
    told = study("run", recipe, "--out", "out", "--dry-run", "--set", "grid.epochs=[1,2,3]")
    assert "2 models x 2 tasks x 3 grid points x 2 seeds = 24 runs" in told
    assert "protocols: clinic-entities-en/strict@v1 (f1); clinic-phi-en/strict@v1 (f1)" in told
    assert "choose the grid point with the best mean dev score over seeds" in told
    assert "across corpora" not in told
    assert "24 runs: 0 done, 24 waiting" in told
    assert not Path("out.runs").exists()
    study("run", recipe, "--out", "out")
    told = study("run", recipe, "--out", "out", "--dry-run", "--set", "seeds=[1,2,3]")
    assert "12 runs: 8 done, 4 waiting; about" in told
    assert "extend the tables and the report in out" in told
    assert "reuse the tables" in study("run", recipe, "--out", "out", "--dry-run")
    pairs = study("pairwise", recipe, "--out", "pairs", "--dry-run")
    assert "2 models x 2 tasks x 2 seeds: 12 runs (8 of one task, 4 of two tasks)" in pairs


def test_a_dry_run_names_folds_and_shares(recipe: str, tasks: Path) -> None:
    folds = f'folds.x=["{tasks}/clinic-phi-en","{tasks}/clinic-entities-en"]'
    told = study("run", recipe, "--dry-run", "--set", folds, "--set", f'tasks=["{tasks}/clinic-phi-en"]')
    assert "2 models x 3 tasks and folds x 2 seeds" in told
    assert "cross-validated, mean over folds: x in 2 folds" in told


@pytest.mark.parametrize("width", ["60", "200"])
def test_a_run_ends_with_its_table_and_its_verdict(recipe: str, monkeypatch: pytest.MonkeyPatch, width: str) -> None:
    monkeypatch.setenv("COLUMNS", width)
    told = study("run", recipe, "--out", "out")
    assert "a-model-with-quite-a-long-name is better than weak on 2 of 2 tasks (mean +" in told
    assert "Holm-corrected over 2 comparisons" in told
    assert "…" not in told
    assert told.strip().endswith("out")
    joined = told.replace("\n", "").replace(" ", "")
    assert joined.count("clinic-phi-en") >= 2
    # The table is printed when the study is reused, and by `report`, too.
    for again in (study("run", recipe, "--out", "out"), study("report", "out")):
        assert "is better than weak on 2 of 2 tasks" in again


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("split=tets", "split: the task clinic-entities-en has no split 'tets'. Did you mean 'test'?"),
        ("split=validation", "has no split 'validation'. Splits: train, dev, test."),
        ("baseline=z", "the baseline 'z' is not among the models"),
        ("layout=pretty", "layout must be 'plain'"),
        ("models.weak.modle=x", "did you mean 'models.weak.model'?"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_wrong_setting_is_named_before_the_first_run(recipe: str, change: str, told: str, more: list[str]) -> None:
    with pytest.raises(OslerError, match=re.escape(told)):
        study("run", recipe, "--out", "out", "--set", change, *more)
    assert not Path("out.runs").exists()


def test_a_wrong_model_is_named_by_its_row(tasks: Path, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(f'tasks = ["{tasks}/clinic-phi-en"]\n[models.mine]\nmodel = "{tasks}"\n')
    with pytest.raises(OslerError, match=r"models\.mine\.model: no config\.json here"):
        study("run", str(path), "--dry-run")


@pytest.mark.parametrize("command", ["status", "report"])
def test_a_name_that_is_neither_a_study_nor_a_recipe_is_said_to_be_neither(command: str) -> None:
    with pytest.raises(
        OslerError, match=r"nowhere: neither a study that was begun nor a recipe\. Give the --out of a study"
    ):
        study(command, "nowhere")
    with pytest.raises(OslerError, match=r"neither a study that was begun nor a recipe\. Did you mean demo/study"):
        study(command, "demo/studdy")
