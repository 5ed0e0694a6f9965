"""Corrections: the log survives kills and several writers, and becomes tasks that fine-tuning takes."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from bundles import make_bundle

from osler.artifacts.bundle_spec import BundleSpec
from osler.artifacts.task_folder import TaskFolder
from osler.core.errors import ArtifactError, InputError, OutputError, RecipeError
from osler.stages.serve.corrections import CorrectionLog, CorrectionsRecipe, check_note, note_id, plan, run
from osler.text.document import Document, Span

MODEL = "0123abc"


@pytest.fixture(scope="module")
def spec(bundle: Path) -> BundleSpec:
    return BundleSpec.load(bundle)


@pytest.fixture
def log(spec: BundleSpec, tmp_path: Path) -> CorrectionLog:
    return CorrectionLog.create(tmp_path / "corrections", MODEL, spec)


def note(number: int, label: str = "DRUG", head: str = "drugs") -> Document:
    span = Span.at(8, 15, label, score=0.4, attributes={"head": head, "negation": "negated"})
    return Document("any", f"He took aspirin {number}.", (span,))


def save(log: CorrectionLog, number: int, annotator: str = "ana", **changes: int) -> None:
    log.add(annotator, MODEL, ["drugs"], changes, note(number))


def test_the_last_save_of_a_text_counts_and_people_are_kept_apart(log: CorrectionLog) -> None:
    save(log, 1, added=2)
    save(log, 2, accepted=5)
    save(log, 1, "bo")
    log.add("ana", MODEL, ["drugs"], {"relabelled": 1}, note(1, "DOSE"))
    assert log.annotators() == ["ana", "bo"]
    first, second = log.notes("ana")
    assert (first.id, first.text, first.spans[0].label) == (note_id(first.text), "He took aspirin 1.", "DOSE")
    assert second.meta | {"saved": ""} == {
        "annotator": "ana",
        "model": MODEL,
        "heads": "drugs",
        "saved": "",
        "accepted": "5",
        "relabelled": "0",
        "removed": "0",
        "added": "0",
    }
    assert log.counts("ana") == ("ana", 2, 2, 1)
    assert log.counts("nobody") == ("nobody", 0, 0, 0)


def test_only_the_owner_can_read_the_corrections(log: CorrectionLog) -> None:
    save(log, 1)
    modes = {stat.S_IMODE(os.stat(path).st_mode) & 0o077 for path in (log.folder, log.folder / "ana.jsonl")}
    assert modes == {0}


def test_many_save_at_once_and_nothing_is_lost(log: CorrectionLog) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(lambda number: CorrectionLog(log.folder).add("ana", MODEL, ["drugs"], {}, note(number)), range(60))
        )
    assert {found.text for found in log.notes("ana")} == {note(number).text for number in range(60)}


def test_half_a_line_of_a_killed_process_is_removed(log: CorrectionLog) -> None:
    save(log, 1)
    path = log.folder / "ana.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    assert len(log.notes("ana")) == 1
    assert path.read_bytes() == whole
    path.write_bytes(whole + whole[:9])
    save(log, 2)
    assert [found.text for found in log.notes("ana")] == ["He took aspirin 1.", "He took aspirin 2."]


def test_a_damaged_line_is_named_and_not_quoted(log: CorrectionLog) -> None:
    save(log, 1)
    path = log.folder / "ana.jsonl"
    path.write_text('{"text": "aspirin"\n' + path.read_text())
    with pytest.raises(InputError, match=r"ana.jsonl:1: not valid JSON") as caught:
        log.notes("ana")
    assert "aspirin" not in str(caught.value)


def test_a_missing_or_damaged_description_of_a_model_is_named(log: CorrectionLog, spec: BundleSpec) -> None:
    path = log.folder / "models" / f"{MODEL}.json"
    path.write_text(path.read_text()[:50])
    with pytest.raises(ArtifactError, match=r"0123abc\.json: the description of a model is damaged: Invalid JSON"):
        log.head("drugs", MODEL)
    path.unlink()
    with pytest.raises(InputError, match=r"missing\. Serve the same model with --corrections again"):
        log.head("drugs", MODEL)
    CorrectionLog.create(log.folder, MODEL, spec)  # as the service does when it starts
    assert log.head("drugs", MODEL) == spec.heads["drugs"]


@pytest.mark.parametrize("name", ["", "Ana", "../ana", "a" * 41, "ana b", "-a"])
def test_a_name_that_is_no_file_name_is_refused(log: CorrectionLog, name: str) -> None:
    with pytest.raises(InputError, match="the name of an annotator"):
        save(log, 1, name)
    assert log.annotators() == []


@pytest.mark.parametrize(
    ("heads", "made", "problem"),
    [
        (["drugs"], note(1, head="farmacos"), "span 1: an entity has no head, or another one"),
        (["drugs"], note(1, "FARMACO"), "span 1: its head does not have this label"),
        (["entailment"], note(1), "the head entailment does not find entities"),
        (["drug"], note(1), "this bundle has no head 'drug'. Did you mean 'drugs'"),
    ],
)
def test_what_no_head_could_learn_is_refused(spec: BundleSpec, heads: list[str], made: Document, problem: str) -> None:
    check_note(spec, ["drugs"], note(1))
    with pytest.raises((InputError, RecipeError)) as caught:
        check_note(spec, heads, made)
    assert problem in str(caught.value)


def recipe(log: CorrectionLog, **more: object) -> CorrectionsRecipe:
    return CorrectionsRecipe.model_validate({"corrections": log.folder, **more})


def test_a_task_for_each_person_and_head(log: CorrectionLog, tmp_path: Path) -> None:
    for number in range(30):
        save(log, number)
    for number in (1, 2):
        log.add("bo", MODEL, ["drugs", "farmacos"], {"added": 1}, note(number))
    assert plan(recipe(log), Path("out"))[0] == "ana: 30 notes, 30 entities, no changes"
    made = {artifact.path.name: TaskFolder.open(artifact.path) for artifact in run(recipe(log), tmp_path / "out")}
    assert list(made) == ["drugs-ana", "drugs-bo", "farmacos-bo"]
    task = made["drugs-ana"]
    assert (task.card.name, task.card.labels, task.card.language) == ("drugs-ana", ("DRUG", "DOSE"), "en")
    notes = {split: task.read(split) for split in task.splits}
    assert 0 < len(notes["dev"]) < 15
    assert len(notes["train"]) + len(notes["dev"]) == 30
    (found,) = notes["dev"][0].spans
    assert (found.label, found.score, found.attributes) == ("DRUG", None, {}), "gold has no score"
    assert notes["dev"][0].meta.keys() == {"annotator", "model", "saved"}
    assert task.artifact.counts["models"] == [MODEL]
    assert [len(made["drugs-bo"].read(split)) for split in ("train", "dev")] == [1, 1]
    assert not made["farmacos-bo"].read("train")[0].spans, "its head found nothing, and that is right"
    only = run(recipe(log, annotators=("bo",), heads=("drugs",)), tmp_path / "out")
    assert [(artifact.path.name, artifact.reused) for artifact in only] == [("drugs-bo", True)]


def test_more_notes_do_not_move_a_note_to_another_split(log: CorrectionLog, tmp_path: Path) -> None:
    def dev(out: str) -> set[str]:
        (artifact,) = run(recipe(log), tmp_path / out)
        return {found.id for found in TaskFolder.open(artifact.path).read("dev")}

    for number in range(20):
        save(log, number)
    before = dev("one")
    for number in range(20, 40):
        save(log, number)
    assert before < dev("two")
    with pytest.raises(OutputError, match="replace it with --force"):
        run(recipe(log), tmp_path / "one")


def test_too_little_is_refused_with_what_to_do(log: CorrectionLog, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no corrections found"):
        plan(recipe(log), tmp_path)
    save(log, 1)
    with pytest.raises(InputError, match="Correct at least two notes"):
        run(recipe(log), tmp_path / "out")
    for number in (1, 2):
        save(log, number, "bo")
    log.add("bo", MODEL, ["farmacos"], {}, note(3))
    lines = plan(recipe(log, annotators=("bo",)), tmp_path / "out")
    assert lines[1:] == [f"  → {tmp_path / 'out' / 'drugs-bo'}", "  only one note, left out: farmacos"]
    assert [artifact.path.name for artifact in run(recipe(log, annotators=("bo",)), tmp_path / "out")] == ["drugs-bo"]
    with pytest.raises(InputError, match=r"no corrections by anna\. Did you mean ana"):
        plan(recipe(log, annotators=("anna",)), tmp_path)
    with pytest.raises(InputError, match="no corrections of these heads"):
        plan(recipe(log, heads=("deid",)), tmp_path)


def test_a_newer_model_brings_its_own_card(log: CorrectionLog, tokenizer_folder: Path, tmp_path: Path) -> None:
    save(log, 1)
    spec = BundleSpec.load(make_bundle(tmp_path / "new", tokenizer_folder, ("drugs",)))
    head = spec.heads["drugs"]
    newer = head.changed(card=head.card.model_copy(update={"labels": ("DRUG", "DOSE", "FORM")}))
    CorrectionLog.create(log.folder, "beef", spec.model_copy(update={"heads": {"drugs": newer}}))
    log.add("ana", "beef", ["drugs"], {}, note(2, "FORM"))
    (artifact,) = run(recipe(log), tmp_path / "out")
    assert TaskFolder.open(artifact.path).card.labels == ("DRUG", "DOSE", "FORM")
    assert json.loads((artifact.path / "manifest.json").read_text())["counts"]["models"] == [MODEL, "beef"]
