"""Preparing tasks: what an artifact holds, that it is repeatable, and all tasks of a folder at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from osler.artifacts.task_folder import TaskFolder
from osler.cli.main import app
from osler.core.errors import InputError, OutputError, RecipeError
from osler.formats.registry import get_format
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import PrepareJob, run, run_all
from osler.text.document import Document, Span

CDR = {"train": "CDR_TrainingSet", "dev": "CDR_DevelopmentSet", "test": "CDR_TestSet"}


def abstract(number: int) -> Document:
    text = f"Aspirin number {number} causes ulcers."
    spans = (Span.at(0, 7, "Chemical", id="T1"), Span.at(text.index("ulcers"), len(text) - 1, "Disease", id="T2"))
    return Document(str(number), text, spans)


def cdr(folder: Path, count: int = 4) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for place, name in enumerate(CDR.values()):
        documents = [abstract(100 * place + n) for n in range(count)]
        get_format("pubtator").write(documents, folder / f"{name}.PubTator.txt")
    return folder


def test_an_artifact_has_records_card_counts_and_the_hash_of_its_files(tmp_path):
    artifact = run(PrepareRecipe(task="bc5cdr-chem", source=cdr(tmp_path / "cdr")), tmp_path / "task")
    counts = artifact.manifest.counts
    assert [counts[split] for split in CDR] == [4, 4, 4]
    assert counts["splits"]["train"] == {
        "documents": 4, "mentions": 4, "overlapping": 0, "discontinuous": 0, "labels": {"Chemical": 4}
    }  # fmt: skip
    assert counts["left_out"] == {"Disease": 12}
    assert len(counts["files"]["train"]["sha256"]) == 64
    task = TaskFolder.open(tmp_path / "task")
    assert task.card.name == "bc5cdr-chem"
    assert [document.id for document in task.read("dev")] == ["100", "101", "102", "103"]
    held_out = {split: [record.id for record in records] for split, records in task.held_out().items()}
    assert held_out == {split: [record.id for record in task.read(split)] for split in ("dev", "test")}


def test_the_same_files_elsewhere_give_the_same_artifact_and_other_files_do_not_pass_for_them(tmp_path):
    here = run(PrepareRecipe(task="bc5cdr", source=cdr(tmp_path / "a")), tmp_path / "one")
    there = run(PrepareRecipe(task="bc5cdr", source=cdr(tmp_path / "b" / "deeper")), tmp_path / "two")
    assert here.manifest.digest == there.manifest.digest
    assert run(PrepareRecipe(task="bc5cdr", source=tmp_path / "b"), tmp_path / "one").reused
    cdr(tmp_path / "a", count=5)
    with pytest.raises(OutputError, match="other inputs"):
        run(PrepareRecipe(task="bc5cdr", source=tmp_path / "a"), tmp_path / "one")


def test_labels_that_are_discovered_are_on_the_artifacts_card(tmp_path):
    for split in ("train", "dev"):
        document = Document("case1", "Dolor y fiebre.", labels=("D:r50.9", f"D:{split}", "P:bw03"))
        get_format("codiesp").write([document], tmp_path / "codiesp" / split)
    run(PrepareRecipe(task="codiesp", source=tmp_path), tmp_path / "task")
    task = TaskFolder.open(tmp_path / "task")
    assert task.card.labels == ("D:dev", "D:r50.9", "D:train")
    assert task.artifact.manifest.counts["absent"] == ["test"]
    assert task.splits == ["train", "dev"]


def test_a_task_with_folds_wants_to_know_which(tmp_path):
    with pytest.raises(RecipeError, match="10 folds"):
        run(PrepareRecipe(task="gad", source=tmp_path), tmp_path / "task")


def test_an_error_leaves_no_artifact(tmp_path):
    folder = cdr(tmp_path / "cdr")
    with (folder / "CDR_TestSet.PubTator.txt").open("a") as stream:
        stream.write("103\t0\t7\tCANARY\tChemical\tX\n")
    with pytest.raises(InputError, match=r"CDR_TestSet\.PubTator\.txt:\d+") as caught:
        run(PrepareRecipe(task="bc5cdr", source=folder), tmp_path / "task")
    assert "CANARY" not in str(caught.value)
    assert not (tmp_path / "task").exists()


@pytest.mark.parametrize("workers", [1, 2])
def test_all_that_is_there_is_prepared_and_the_rest_is_named(tmp_path, workers):
    cdr(tmp_path / "from" / "cdr")
    get_format("medrqe").write([], tmp_path / "from" / "MEDIQA2019-Task2-RQE-TrainingSet-AMIA2016.xml")
    names = ["bc5cdr", "bc5cdr-chem", "medrqe", "jnlpba"]
    todo = [PrepareJob(name, None, tmp_path / "out" / name) for name in names]
    outcomes = {o.job.task: o for o in run_all(tmp_path / "from", todo, workers=workers)}
    assert {name: o.status for name, o in outcomes.items()} == {
        "bc5cdr": "made", "bc5cdr-chem": "made", "medrqe": "incomplete", "jnlpba": "not found"
    }  # fmt: skip
    assert "ValidationSet" in outcomes["medrqe"].message
    again = {o.job.task: o.status for o in run_all(tmp_path / "from", todo[:2], workers=1)}
    assert again == {"bc5cdr": "reused", "bc5cdr-chem": "reused"}


def test_a_missing_source_is_told_before_any_worker_starts(tmp_path):
    todo = [PrepareJob(name, None, tmp_path / "out" / name) for name in ("bc5cdr", "jnlpba")]
    with pytest.raises(InputError, match="no such file or folder"):
        list(run_all(tmp_path / "missing", todo, workers=2))


def test_the_command_prepares_all_and_says_what_it_did_not_find(tmp_path):
    cdr(tmp_path / "from")
    arguments = ["tasks", "prepare", "--all", "--from", str(tmp_path / "from"), "--out", str(tmp_path / "out")]
    planned = CliRunner().invoke(app, [*arguments, "--dry-run"])
    assert planned.exit_code == 0
    assert not (tmp_path / "out").exists()
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "3 of" in done.output
    assert "not found: bc2gm" in done.output
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["bc5cdr", "bc5cdr-chem", "bc5cdr-disease"]
    nothing = CliRunner().invoke(app, ["tasks", "prepare", "bc5cdr", "--all", "--from", str(tmp_path)])
    assert isinstance(nothing.exception, RecipeError)


def test_the_command_makes_every_fold_or_the_one_asked_for(tmp_path):
    for fold in range(1, 11):
        folder = tmp_path / "from" / "euadr" / str(fold)
        folder.mkdir(parents=True)
        rows = "".join(f"@GENE$ and @DISEASE$ in sentence {n} of {fold}\t{n % 2}\n" for n in range(20))
        (folder / "train.tsv").write_text(rows)
        (folder / "test.tsv").write_text("index\tsentence\tlabel\n" + f"0\t@GENE$ test {fold}\t1\n")
    arguments = ["tasks", "prepare", "euadr", "--from", str(tmp_path / "from")]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "all")])
    assert done.exit_code == 0, done.output
    assert len(list((tmp_path / "all").iterdir())) == 10
    one = CliRunner().invoke(app, [*arguments, "--fold", "3", "--out", str(tmp_path / "third")])
    assert one.exit_code == 0, one.output
    assert TaskFolder.open(tmp_path / "third").card.name == "euadr-fold3"
