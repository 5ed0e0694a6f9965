"""What `osler tasks check` finds in prepared tasks, on made-up files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from osler.artifacts.task_folder import TaskFolder
from osler.cli.main import app
from osler.core.errors import ArtifactError
from osler.formats.registry import get_format
from osler.stages.prepare.check import check
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run
from osler.tasks.catalogue import load_card
from osler.text.document import Document, Span

CARD = """
name = "{name}"
title = "t"
kind = "tagging"
language = "en"
labels = ["Drug"]
licence = "x"
protocol_family = "ner"
protocol = "strict"
[source]
reader = "files"
format = "brat"
splits.train.files = ["train/*.txt", "train/*.ann"]
splits.test.files = ["test/*.txt", "test/*.ann"]
{more}
"""


def note(number: int, extra: str = "") -> Document:
    text = f"Patient {number} takes aspirin {number * 7} mg against pain number {number * 3} every day of week {number}.{extra}"
    at = text.index("aspirin")
    return Document(f"n{number}", text, (Span.at(at, at + 7, "Drug", id="T1"), Span.at(at, at + 4, "Other", id="T2")))


def prepared(tmp_path: Path, name: str, train: list[Document], test: list[Document], more: str = "") -> TaskFolder:
    folder = tmp_path / name
    for split, notes in (("train", train), ("test", test)):
        get_format("brat").write(notes, folder / "files" / split)
    card = folder / "card.toml"
    card.write_text(CARD.format(name=name, more=more))
    run(PrepareRecipe(task=str(card), source=folder / "files"), folder / "task")
    return TaskFolder.open(folder / "task")


PINNED = """
[counts]
train = {{ documents = 3, mentions = 3 }}
[paper]
source = "p"
splits.train = {{ documents = 3, mentions = {mentions} }}
splits.all = {{ documents = {documents} }}
[paper.differences]
"train.mentions" = "the paper counts Other too"
"""


def test_numbers_stand_beside_card_and_paper_and_differences_are_equal_explained_or_not(tmp_path):
    notes = [note(n) for n in range(3)]
    task = prepared(tmp_path, "a", notes, [note(9)], PINNED.format(mentions=6, documents=5))
    (report,) = check([task]).tasks
    lines = {(line.split, line.number): (line.here, line.card, line.paper, line.verdict) for line in report.lines}
    assert lines == {
        ("train", "documents"): (3, 3, 3, "equal"),
        ("train", "mentions"): (3, 3, 6, "explained"),
        ("test", "documents"): (1, None, None, "not stated"),
        ("test", "mentions"): (1, None, None, "not stated"),
        ("all", "documents"): (4, None, 5, "differs"),
    }
    assert not report.sound
    assert report.left_out == {"Other": 4}
    assert report.offsets["mentions"] == 4


def test_an_explanation_does_not_excuse_other_files_than_those_it_is_about(tmp_path):
    task = prepared(tmp_path, "a", [note(n) for n in range(2)], [note(9)], PINNED.format(mentions=6, documents=3))
    (report,) = check([task]).tasks
    verdicts = {(line.split, line.number): line.verdict for line in report.lines}
    assert verdicts["train", "mentions"] == "differs"
    assert verdicts["all", "documents"] == "equal"


COUNTED = """
[counts.train]
documents = 3
mentions = {mentions}
overlapping = 6
labels = {{ Drug = 3, Other = 3 }}
"""


def test_a_label_taken_off_the_card_explains_the_difference_from_its_counts(tmp_path):
    """The counts were made when Other was a label: both labels of a note share characters."""
    notes = [note(n) for n in range(3)]
    task = prepared(tmp_path, "a", notes, [note(9)], COUNTED.format(mentions=6))
    (report,) = check([task]).tasks
    lines = {line.number: (line.here, line.card, line.verdict, line.reason) for line in report.lines if line.card}
    reason = "left out by the card: Other 3"
    assert lines == {
        "documents": (3, 3, "equal", None),
        "mentions": (3, 6, "explained", reason),
        "overlapping": (0, 6, "explained", reason),
        "label:Drug": (3, 3, "equal", None),
        "label:Other": (0, 3, "explained", "left out by the card"),
    }
    assert report.sound
    done = CliRunner().invoke(app, ["tasks", "check", str(tmp_path / "a"), "--strict"], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert "left out by the card: Other 4" in done.output
    assert "all counts are as stated or explained" in done.output
    # What is missing beyond that label is not explained by it.
    other = prepared(tmp_path, "b", notes, [note(9)], COUNTED.format(mentions=7))
    assert not check([other]).tasks[0].sound


def test_a_label_renamed_on_the_card_explains_its_counts(tmp_path):
    renames = COUNTED.format(mentions=6) + '[label_map]\nOther = "Drug"\n'
    task = prepared(tmp_path, "a", [note(n) for n in range(3)], [note(9)], renames)
    (report,) = check([task]).tasks
    reasons = {line.number: line.reason for line in report.lines if line.verdict == "explained"}
    assert reasons == {"label:Drug": "the card adds Other 3", "label:Other": "the card renames it to Drug"}
    assert report.sound


def test_preparing_says_what_the_card_leaves_out(tmp_path):
    prepared(tmp_path, "a", [note(1)], [note(9)])
    arguments = ["tasks", "prepare", "a/card.toml", "--from", "a/files", "--out", "again"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        done = CliRunner().invoke(app, arguments)
    assert "left out by the card: Other 2" in done.stderr


def test_mentions_that_are_cut_are_reported_by_prepare_and_check(tmp_path):
    cut = [
        n.with_(spans=tuple(Span.at(s.start + 1, s.end, s.label, id=s.id) for s in n.spans))
        for n in map(note, range(6))
    ]
    prepared(tmp_path, "a", cut, [note(9)])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        made = CliRunner().invoke(app, ["tasks", "prepare", "a/card.toml", "--from", "a/files", "--out", "again"])
        checked = CliRunner().invoke(app, ["tasks", "check", "again"])
    for shown in (" ".join(made.stderr.split()), " ".join(checked.output.split())):
        assert "7 mentions verified: 6 (85.71%) beginning or ending inside a word" in shown
        assert "the offsets must count something else than characters" in shown
    assert "unexplained differences or wrong offsets: a" in checked.output
    (report,) = check([TaskFolder.open(tmp_path / "again")]).tasks
    assert not report.aligned
    assert not report.sound


def test_shared_documents_are_found_within_and_across_tasks(tmp_path):
    one = prepared(tmp_path, "one", [note(1), note(2), note(3)], [note(3).with_(id="other"), note(4)])
    two = prepared(tmp_path, "two", [note(4, " He was discharged."), note(5)], [note(2), note(6)])
    report = check([one, two])
    within = [(item.of, item.within, item.texts, item.near, item.ids) for item in report.within]
    across = [(item.of, item.within, item.texts, item.near, item.ids) for item in report.across]
    # An exact copy is not counted among the near ones.
    assert within == [("one/train", "one/test", 1, 0, 0)]
    assert across == [("one/train", "two/test", 1, 0, 1), ("two/train", "one/test", 0, 1, 1)]
    assert check([one, two], leakage=False).across == []


def test_short_copies_are_shown_apart_and_the_cut_off_is_said(tmp_path):
    notes = [note(1), Document("s", "No aspirin .", (Span.at(3, 10, "Drug"),))]
    prepared(tmp_path, "one", notes, [note(2), notes[1].with_(id="t")])
    done = CliRunner().invoke(app, ["tasks", "check", str(tmp_path / "one")])
    shown = " ".join(done.output.split())
    assert "same text near-duplicate same short text same id one/train one/test 0 0 1 0" in shown
    assert "Below five words only exact copies are counted" in shown


def test_a_changed_file_is_not_checked_but_refused(tmp_path):
    task = prepared(tmp_path, "one", [note(1)], [note(2)])
    (tmp_path / "one" / "task" / "train.parquet").write_bytes(b"x")
    with pytest.raises(ArtifactError, match=r"train\.parquet was changed"):
        check([task])


def test_the_command_prints_a_table_writes_json_and_can_be_strict(tmp_path):
    prepared(tmp_path, "one", [note(1)], [note(2)], PINNED.format(mentions=6, documents=5))
    folder, out = str(tmp_path / "one"), tmp_path / "report.json"
    done = CliRunner().invoke(app, ["tasks", "check", folder, "--json", str(out)])
    assert done.exit_code == 0, done.output
    assert "differs" in done.output
    assert "aspirin" not in done.output
    report = json.loads(out.read_text())
    assert report["sound"] is False
    assert report["tasks"][0]["task"] == "one"
    assert CliRunner().invoke(app, ["tasks", "check", folder, "--strict"]).exit_code == 1
    piped = CliRunner().invoke(app, ["tasks", "check", folder, "--json", "-"])
    assert json.loads(piped.stdout) == report


def test_the_folds_of_a_corpus_are_added_up(tmp_path):
    for fold in range(1, 11):
        folder = tmp_path / "euadr" / str(fold)
        folder.mkdir(parents=True)
        rows = "".join(f"@GENE$ and @DISEASE$ in sentence {n} of fold {fold}\t{n % 2}\n" for n in range(20))
        (folder / "train.tsv").write_text(rows)
        (folder / "test.tsv").write_text("index\tsentence\tlabel\n" + f"0\t@GENE$ with @DISEASE$ in test {fold}\t1\n")
    tasks = []
    for fold in range(1, 11):
        run(PrepareRecipe(task="euadr", source=tmp_path, fold=fold), tmp_path / "out" / str(fold))
        tasks.append(TaskFolder.open(tmp_path / "out" / str(fold)))
    report = check(tasks)
    (total,) = (task for task in report.tasks if task.task == "euadr (all folds)")
    lines = {line.number: (line.here, line.paper) for line in total.lines}
    assert lines == {"documents": (10, 355)}
    # Nine folds are not all of them.
    assert all("all folds" not in task.task for task in check(tasks[:9], leakage=False).tasks)


def test_files_that_osler_made_up_are_said_to_be_and_not_held_against_the_paper(tmp_path):
    from osler.clinic.synthesize import SynthesizeRecipe
    from osler.clinic.synthesize import run as synthesize

    synthesize(SynthesizeRecipe(task="mednli", n=10), tmp_path / "files")
    run(PrepareRecipe(task="mednli", source=tmp_path / "files"), tmp_path / "task")
    (report,) = check([TaskFolder.open(tmp_path / "task")]).tasks
    assert report.synthetic
    assert report.sound
    assert {line.verdict for line in report.lines} == {"synthetic"}
    assert load_card("mednli").paper is not None


def test_two_folders_of_one_task_are_told_apart(tmp_path):
    first = prepared(tmp_path / "a", "mine", [note(1), note(2)], [note(3)])
    second = prepared(tmp_path / "b", "mine", [note(3), note(4)], [note(5)])
    report = check([first, second])
    assert [task.task for task in report.tasks] == [f"mine ({folder.artifact.path})" for folder in (first, second)]
    assert report.within == []
    (shared,) = (item for item in report.across if item.texts)
    assert (shared.of, shared.within) == (
        f"mine ({second.artifact.path})/train",
        f"mine ({first.artifact.path})/test",
    )


RELEASED = """
[paper]
source = "p"
splits.train = { documents = 9 }
[releases.small]
title = "one hospital"
[releases.large]
title = "two hospitals"
[releases.large.paper]
source = "p"
splits.train = { documents = 3 }
"""


def test_counts_are_compared_with_those_of_the_release_that_was_found(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.CARD", 'release = "small"\n' + CARD)
    task = prepared(tmp_path, "mine", [note(n) for n in range(3)], [note(9)], RELEASED)
    (report,) = check([task], leakage=False).tasks
    (line,) = (line for line in report.lines if (line.split, line.number) == ("train", "documents"))
    assert (report.release, line.paper, line.verdict) == ("large", 3, "equal")
    shown = CliRunner().invoke(app, ["tasks", "check", str(task.artifact.path)])
    assert "mine, release large" in shown.output


def test_a_check_of_synthetic_files_does_not_claim_that_their_counts_are_right(tmp_path):
    from osler.clinic.synthesize import SynthesizeRecipe
    from osler.clinic.synthesize import run as synthesize

    synthesize(SynthesizeRecipe(task="mednli", n=10), tmp_path / "files")
    command = ["tasks", "prepare", "--all", "--from", str(tmp_path / "files"), "--out", str(tmp_path / "tasks")]
    shown = CliRunner().invoke(app, command)
    assert "mednli made: train 10 · dev 1 · test 1 (synthetic files)\n" in shown.output
    shown = CliRunner().invoke(app, ["tasks", "check", str(tmp_path / "tasks")])
    assert "all files are synthetic: there is nothing to compare their counts with" in shown.output
    prepared(tmp_path, "mine", [note(1)], [note(9)])
    shown = CliRunner().invoke(app, ["tasks", "check", str(tmp_path / "tasks"), str(tmp_path / "mine" / "task")])
    assert "1 of 2 tasks have synthetic files, whose counts are not compared" in shown.output
