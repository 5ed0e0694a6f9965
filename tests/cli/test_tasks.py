"""What the task commands say when something is wrong: what, where, and which option to change."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from osler.cli.main import app
from osler.core.errors import OslerError

CARD = """
name = "mine"
title = "t"
kind = "classification"
language = "en"
labels = ["a", "b"]
protocol = "accuracy"
[source]
reader = "files"
format = "csv"
splits.train.files = ["notes.csv"]
[protocols.accuracy]
metric = "accuracy"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(CARD)
    (tmp_path / "notes.csv").write_text(
        "text,label\n" + "".join(f"Note {n} of the day,{'ab'[n % 2]}\n" for n in range(9))
    )
    (tmp_path / "empty").mkdir()
    return tmp_path


def osler(arguments: str) -> Result:
    return CliRunner().invoke(app, arguments.split(), env={"COLUMNS": "200"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("tasks prepare ncbi-disease --out o", "needs its official files: train: NCBItrainset_corpus.txt"),
        ("tasks prepare ncbi-disease --from nowhere --out o", "nowhere: no such file or folder. Check --from"),
        ("tasks prepare ncbi-disease --from notes.csv --out o", "notes.csv: files of task ncbi-disease are missing"),
        (
            "tasks prepare mine.toml --from empty --out o",
            "empty: files of task mine are missing: train: notes.csv. Give",
        ),
        ("tasks prepare mine.toml --from notes.csv --out o --fold 3", "task mine has no fold 3. Leave out --fold"),
        ("tasks prepare mine.toml --from notes.csv --out o --set options.nope=1", "'csv' has no option 'nope'"),
        (
            "tasks prepare mine.toml --from notes.csv --out o --set options.columns=1",
            "a list of names, such as columns",
        ),
        ("tasks prepare euadr --fold 99 --from empty --out o", "Give --fold a number from 1 to 10"),
        ("tasks prepare euadr --from empty --out o", "files of task euadr-fold1 are missing: train: euadr/1/train.tsv"),
        ("tasks new other --from empty", "empty: there are no files here. Check the path"),
        ("tasks new other --from notes.csv --kind tagging", "does not fit a tagging task. Give --kind one of: "),
        (
            "tasks new other --from notes.csv --out /proc/x.toml",
            "/proc/x.toml: cannot write: files cannot be created here",
        ),
        ("tasks new other --from notes.csv --format csvv", "'csvv' is not one of the formats. Did you mean 'csv'?"),
        (
            "tasks show mine.toml --from notes.csv --html notes.csv/x.html",
            "is a file, not a folder. Choose another --html",
        ),
        (
            "tasks show mine.toml --from notes.csv --html /proc/x.html",
            "files cannot be created here. Choose another --html",
        ),
        ("tasks check nowhere", "nowhere: no such folder. Check the path"),
        (
            "tasks synthesize hoc --out o",
            "task hoc has no synthetic distribution, because it is not access-controlled. Free",
        ),
        ("tasks synthesize clinic-phi-en --out o", "it needs no files"),
        ("convert empty --to jsonl --out o.jsonl", "empty: there are no files here. Check the path"),
        ("convert notes.csv --to sts --out o.tsv", "Choose another --to"),
    ],
)
def test_a_mistake_is_explained_with_what_to_change(here: Path, arguments: str, message: str) -> None:
    failed = osler(arguments)
    assert isinstance(failed.exception, OslerError), failed.output
    assert message in str(failed.exception)
    # What can be seen beforehand is said before anything is made.
    assert sorted(path.name for path in here.iterdir()) == ["empty", "mine.toml", "notes.csv"]


def test_a_dry_run_says_the_same(here: Path) -> None:
    failed = osler("tasks prepare mine.toml --from nowhere --out o --dry-run")
    assert isinstance(failed.exception, OslerError)
    assert "Check --from" in str(failed.exception)


def test_a_file_for_results_that_cannot_be_written_names_its_option(here: Path) -> None:
    made = osler(
        "tasks prepare clinic-phi-en --out task --set options.train=4 --set options.dev=2 --set options.test=2"
    )
    assert made.exit_code == 0, made.output
    failed = osler("tasks check task --json /proc/x.json")
    assert isinstance(failed.exception, OslerError), failed.output
    assert "Choose another --json" in str(failed.exception)


@pytest.mark.parametrize(
    ("option", "known"), [("--language xx", "en, es, fr"), ("--domain xx", "biomedical, clinical")]
)
def test_a_filter_that_no_task_matches_lists_what_there_is(option: str, known: str) -> None:
    failed = osler(f"tasks list {option}")
    assert failed.exit_code == 2
    assert f"must be one of {known}" in failed.output
