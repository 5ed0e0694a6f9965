"""Showing a task: mentions, relations and pairs in the terminal, and a page with everything inside."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from osler.cli.main import app
from osler.core.errors import InputError, OslerError, OutputError, UnknownNameError
from osler.formats.registry import get_format
from osler.text.document import Document, Relation, Span, TextPair

CARD = """
name = "own"
title = "Drugs"
kind = "{kind}"
record = "{record}"
language = "en"
labels = {labels}
pairs = {pairs}
protocol = "p"
[source]
reader = "files"
format = "jsonl"
splits.train.files = ["train.jsonl"]
splits.dev.files = ["dev.jsonl"]
[protocols.p]
metric = "f1"
"""
NOTE = Document(
    "n1",
    "Aspirin with warfarin.\x1b[31m",
    (Span.at(0, 7, "DRUG", id="T1"), Span.at(13, 21, "DRUG", id="T2"), Span.at(8, 12, "OTHER", id="T3")),
    (Relation("effect", "T1", "T2", "R1"),),
)
BARE = Document("n2", "Only <b>fever</b>.")


def osler(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["tasks", *map(str, arguments)], env={"COLUMNS": "80"})


def made(folder: Path, records: list[Document] | list[TextPair], **values: str) -> Path:
    """A card and its files; returns the card."""
    fields = {"kind": "tagging", "record": "document", "labels": '["DRUG"]', "pairs": "[]"} | values
    (folder / "own.toml").write_text(CARD.format(**fields))
    get_format("jsonl").write(records, folder / "train.jsonl")
    get_format("jsonl").write(records[:1], folder / "dev.jsonl")
    return folder / "own.toml"


def refused(result: Result) -> OslerError:
    assert isinstance(result.exception, OslerError), result.output
    return result.exception


def test_a_prepared_folder_and_its_files_show_the_same(tmp_path: Path) -> None:
    card = made(tmp_path, [BARE, NOTE])
    assert osler("prepare", card, "--from", tmp_path, "--out", tmp_path / "task").exit_code == 0
    prepared = osler("show", tmp_path / "task")
    straight = osler("show", card, "--from", tmp_path)
    assert prepared.exit_code == 0, prepared.output
    assert prepared.stdout == straight.stdout
    assert "Aspirin[DRUG] with warfarin[DRUG]." in prepared.stdout
    # What another task would learn is not shown, and an escape sequence of a document does not reach the terminal.
    assert "OTHER" not in prepared.stdout
    assert "\x1b" not in prepared.stdout


def test_relations_are_listed_and_a_label_selects(tmp_path: Path) -> None:
    card = made(tmp_path, [BARE, NOTE], kind="relation", labels='["effect", "int"]', pairs='[["DRUG", "DRUG"]]')
    shown = osler("show", card, "--from", tmp_path, "--label", "effect").stdout
    assert "Aspirin ─ effect → warfarin" in shown
    assert "n2" not in shown
    assert "n2" in osler("show", card, "--from", tmp_path, "-n", "1").stdout
    assert isinstance(refused(osler("show", card, "--from", tmp_path, "--label", "int")), InputError)
    error = refused(osler("show", card, "--from", tmp_path, "--label", "efect"))
    assert isinstance(error, UnknownNameError)
    assert "Did you mean 'effect'" in str(error)


def test_pairs_stand_side_by_side(tmp_path: Path) -> None:
    pairs = [TextPair("p1", "He rests.", "He runs.", labels=("no",)), TextPair("p2", "A.", "B.", labels=("yes",))]
    card = made(tmp_path, pairs, kind="classification", record="pair", labels='["no", "yes"]')
    shown = osler("show", card, "--from", tmp_path).stdout
    assert any("He rests." in line and "He runs." in line for line in shown.splitlines())
    assert re.search(r"train 2 +p2 +yes", shown)


def test_the_page_holds_everything_and_says_what_it_shows(tmp_path: Path) -> None:
    card = made(tmp_path, [NOTE, BARE])
    done = osler("show", card, "--from", tmp_path, "--html", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == str(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count('data-label="DRUG" data-chip') == 2
    assert "2 of split train" in page
    assert "&lt;b&gt;fever" in page
    assert not re.search(r"<script|(?:src|href)=[\"']https?:", page)
    pairs = made(tmp_path, [TextPair("p", "<i>one", "two", value=2.5)], kind="regression", record="pair", labels="[]")
    assert osler("show", pairs, "--from", tmp_path, "--html", tmp_path / "pairs.html").exit_code == 0
    text = (tmp_path / "pairs.html").read_text()
    assert "&lt;i&gt;one" in text
    assert "2.50" in text


def test_wrong_places_are_explained(tmp_path: Path) -> None:
    card = made(tmp_path, [NOTE])
    assert "train, dev" in str(refused(osler("show", card, "--from", tmp_path, "--split", "tset")))
    assert "--from" in str(refused(osler("show", card)))
    assert isinstance(refused(osler("show", card, "--from", tmp_path, "--html", tmp_path / "page.txt")), OutputError)
    assert isinstance(refused(osler("show", "no-such-task")), UnknownNameError)


@pytest.mark.parametrize("task", ["clinic-phi-es", "clinic-similarity-en"])
def test_a_task_of_the_clinic_needs_no_files(task: str) -> None:
    done = osler("show", task, "-n", "2", "--split", "dev")
    assert done.exit_code == 0, done.output
    assert "dev 2" in done.stdout
