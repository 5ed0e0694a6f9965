"""Scores fitted on dev: what is fitted, what is measured, and that predictions stay as they are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from osler.artifacts.bundle import Bundle
from osler.artifacts.calibration import ALL, BundleCalibration
from osler.artifacts.task_folder import TaskFolder
from osler.metrics.calibration import calibration
from osler.stages.finetune import calibrate as module
from osler.stages.finetune.calibrate import DevSet, calibrate
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.run import run
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.tasks.card import TaskCard
from osler.text.document import Document, Span


def test_the_temperature_of_outputs_that_are_three_times_too_sure_is_three():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(20_000, 4)) * 2
    likely = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    targets = (likely.cumsum(axis=1) < rng.random((len(likely), 1))).sum(axis=1)
    assert module._temperature(logits * 3, targets) == pytest.approx(3.0, rel=0.05)
    labels = (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(float)
    assert module._temperature(logits * 3, labels) == pytest.approx(3.0, rel=0.05)


def test_a_perfect_small_dev_split_does_not_make_a_head_certain():
    logits = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0]])
    assert 0.5 < module._temperature(logits, np.array([0, 1, 0])) <= 1.0
    slope, offset = module._logistic(np.full(5, 3.0), np.ones(5))
    assert 0.9 < slope < 1.5
    assert abs(offset) < 0.5
    assert module._logistic(np.zeros(0), np.zeros(0)) == (1.0, 0.0)


def test_the_map_of_mention_scores_is_found_again():
    rng = np.random.default_rng(0)
    log_odds = rng.normal(size=20_000) * 3 + 2
    right = rng.random(len(log_odds)) < 1 / (1 + np.exp(-(0.4 * log_odds - 0.7)))
    slope, offset = module._logistic(log_odds, right)
    assert (slope, offset) == (pytest.approx(0.4, abs=0.03), pytest.approx(-0.7, abs=0.05))
    # Scores that say nothing, or the opposite, still keep their order.
    assert module._logistic(log_odds, ~right)[0] == module._LEAST_SLOPE


TRAIN = {"lr": 3e-3, "device": "cpu", "checkpoint_every": 0, "warmup": 0}


def recipe(model, *tasks, **more) -> FinetuneRecipe:
    values = {"model": str(model), "tasks": tasks, "max_length": 64, "overlap": 8, "epochs": 2, "batch_size": 8}
    return FinetuneRecipe.model_validate(values | {"dropout": 0.0, "train": TRAIN} | more)


@pytest.fixture(scope="module")
def drugs(make_task) -> Path:
    return make_task("drugs", ["DRUG", "TEST"], seed=1, train=40, dev=20, test=4)


@pytest.fixture(scope="module")
def bundle(model, drugs, tmp_path_factory) -> Path:
    return run(recipe(model, drugs), tmp_path_factory.mktemp("made") / "bundle").path


def dev_set(bundle: Bundle, folder: Path) -> dict[str, DevSet]:
    task = TaskFolder.open(folder)
    head, protocol = bundle.spec.tasks[task.card.name]
    gold = task.read("dev")
    instances = bundle.builders[head].build(gold, gold=False).instances
    return {task.card.name: DevSet(task.card, task.card.protocol_named(protocol), head, gold, instances)}


def test_a_bundle_has_its_calibration_in_a_file_and_on_its_card(bundle, drugs):
    loaded = Bundle.load(bundle, "cpu")
    known = loaded.calibration.heads["drugs"]
    assert known.counted == "mentions"
    assert known.predictions == sum(row.number for row in known.reliability) > 0
    assert loaded.calibration == BundleCalibration.load(bundle)
    card = (bundle / "README.md").read_text()
    assert f"{known.error_before:.3f} → {known.error_after:.3f}" in card
    assert "## Scores" in card


def test_the_same_head_is_calibrated_to_the_same_bytes_and_finds_the_same(bundle, drugs, tmp_path):
    loaded = Bundle.load(bundle, "cpu")
    plain = replace(loaded, calibration=BundleCalibration())
    again = calibrate(plain, dev_set(plain, drugs))
    again.save(tmp_path)
    assert (tmp_path / "calibration.json").read_bytes() == (bundle / "calibration.json").read_bytes()
    records = TaskFolder.open(drugs).read("dev")
    raw, fitted = plain.predict("drugs", records), loaded.predict("drugs", records)
    keys = [[span.key for span in record.spans] for record in raw]
    assert keys == [[span.key for span in record.spans] for record in fitted]
    assert [s.score for r in raw for s in r.spans] != [s.score for r in fitted for s in r.spans]


def test_the_curves_say_what_the_bundle_finds(bundle, drugs):
    """Each point is what counting the predictions at that setting gives."""
    loaded = Bundle.load(bundle, "cpu")
    known = loaded.calibration.heads["drugs"]
    gold = TaskFolder.open(drugs).read("dev")
    wanted = [{span.key for span in record.spans} for record in gold]
    found = loaded.predict("drugs", gold)
    at = known.at_score(0.5)
    kept = [[span for span in record.spans if span.score >= 0.5] for record in found]
    right = sum(span.key in want for spans, want in zip(kept, wanted, strict=True) for span in spans)
    assert at.recall == pytest.approx(right / sum(map(len, wanted)), abs=1e-4)
    assert at.precision == pytest.approx(right / max(1, sum(map(len, kept))), abs=1e-4)
    point = known.recall[ALL][1]
    biased = replace(loaded, biases={"drugs": point.setting}).predict("drugs", gold)
    met = sum(
        any(span.label == other.label and span.start < other.end and other.start < span.end for other in have.spans)
        for want, have in zip(gold, biased, strict=True)
        for span in want.spans
    )
    assert point.recall == pytest.approx(met / sum(map(len, wanted)), abs=1e-4)
    recalls = [point.recall for point in known.recall[ALL]]
    assert recalls[0] < max(recalls)


def test_without_calibration_there_is_no_file_and_the_bundle_is_the_same(model, bundle, drugs, tmp_path):
    made = run(recipe(model, drugs, calibrate=False), tmp_path / "bundle").path
    assert not (made / "calibration.json").exists()
    assert "## Scores" not in (made / "README.md").read_text()
    for name in ("bundle.json", "heads.safetensors", "model.safetensors"):
        assert (made / name).read_bytes() == (bundle / name).read_bytes()
    identities = [json.loads((folder / "manifest.json").read_text())["identity"] for folder in (made, bundle)]
    assert identities[0] == identities[1]
    [span] = Bundle.load(made, "cpu").predict("drugs", [Document("a", "bda aspirin kla .")])[0].spans or [None]
    assert span is None or 0.0 < span.score <= 1.0


def test_heads_that_are_kept_keep_their_calibration(bundle, make_task, tmp_path):
    more = make_task("diseases", ["DISEASE"], seed=2, train=10, dev=4, test=2)
    values = {"add_to": bundle, "tasks": (more,), "epochs": 1, "batch_size": 8, "train": TRAIN}
    added = run(FinetuneRecipe.model_validate(values), tmp_path / "added").path
    heads = BundleCalibration.load(added).heads
    assert heads["drugs"] == BundleCalibration.load(bundle).heads["drugs"]
    assert "diseases" in heads


def test_a_joint_head_is_calibrated_on_the_dev_splits_of_all_its_tasks(model, drugs, make_task, tmp_path):
    other = make_task("diseases", ["DISEASE"], seed=2, train=40, dev=20, test=2)
    made = run(recipe(model, drugs, other, joint={"entities": ("drugs", "diseases")}), tmp_path / "joint").path
    [(name, known)] = BundleCalibration.load(made).heads.items()
    assert name == "entities"
    assert set(known.thresholds) == {ALL, "DRUG", "TEST", "DISEASE"}


def test_every_kind_of_head_is_calibrated_but_a_number(model, tmp_path):
    names = ("clinic-phi-en", "clinic-treatments-en", "clinic-specialty-en", "clinic-conditions-en")
    sizes = {"train": 6, "dev": 4, "test": 2}
    folders = [prepare(PrepareRecipe(task=name, options=sizes), tmp_path / name).path for name in names]
    pairs = prepare(
        PrepareRecipe(task="clinic-similarity-en", options={"train": 8, "dev": 4, "test": 4}), tmp_path / "s"
    )
    made = run(recipe(model, *folders, pairs.path, epochs=1), tmp_path / "bundle").path
    heads = BundleCalibration.load(made).heads
    assert {name: head.counted for name, head in heads.items()} == {
        "clinic-phi-en": "characters",  # protected health information is measured by what is covered
        "clinic-treatments-en": "relations",
        "clinic-specialty-en": None,
        "clinic-conditions-en": "labels",
    }
    assert all(head.recall[ALL] for head in heads.values() if head.counted)
    specialty = heads["clinic-specialty-en"]
    assert specialty.predictions == 4
    assert specialty.temperature != 1.0
    assert heads["clinic-phi-en"].recall[ALL][-1].recall > 0.9


def card() -> TaskCard:
    values = {
        "name": "phi",
        "title": "phi",
        "kind": "tagging",
        "language": "en",
        "labels": ("PATIENT", "DATE"),
        "phi": "clinic",
        "protocol": "plain",
        "protocols": {"plain": {"metric": "f1"}},
        "source": {"reader": "files", "format": "jsonl", "splits": {"test": {"files": ["x"]}}},
    }
    return TaskCard.model_validate(values)


def test_protected_characters_count_whatever_label_they_are_covered_with():
    text = "Ann Lee came on May 3."
    gold = [Document("a", text, (Span.at(0, 7, "PATIENT", id="T1"), Span.at(16, 21, "DATE", id="T2")))]
    found = [Document("a", text, (Span.at(0, 3, "DATE", id="T1"), Span.at(8, 12, "DATE", id="T2")))]
    counts = module._masked(card(), gold, found)[ALL]
    assert (counts.reached, counts.gold) == (3, 10)
    assert (counts.right, counts.found) == (3, 7)


def test_mentions_are_met_by_a_part_of_them_with_their_label_and_pairs_exactly():
    one, two, three = ((0, 4),), ((2, 9), (20, 22)), ((9, 12),)
    assert module._touching([one, two, three], [((3, 5),)]) == 2
    assert module._touching([one, two, three], [((21, 30),), ((0, 1),)]) == 2
    assert module._touching([three], [((0, 9),), ((12, 14),)]) == 0
    assert module._touching([one], []) == 0
    assert module._shared([("T1", "T2")], [("T2", "T1")]) == 0


def test_a_large_dev_split_is_thinned_out_evenly(bundle, drugs, monkeypatch):
    loaded = Bundle.load(bundle, "cpu")
    [data] = dev_set(loaded, drugs).values()
    answers = module._Answers.of(loaded, data)
    monkeypatch.setattr(module, "_CHARACTERS", sum(len(record.text) for record in data.records) // 2)
    thin = answers.thinned()
    assert [record.id for record in thin.data.records] == [record.id for record in data.records][::2]
    whole = answers.decoded(module.PLAIN)[::2]
    assert [record.spans for record in thin.decoded(module.PLAIN)] == [record.spans for record in whole]


def test_each_fifth_is_scored_by_what_the_others_give():
    found = module._Predicted(
        np.array([0.9] * 10), np.array([True] * 5 + [False] * 5), np.arange(10), np.array(["X"] * 10)
    )
    fitted, scores = module._fit_mentions(found)
    assert fitted.mention(0.9) < 0.7
    assert len(set(scores.round(6))) == 1  # in each fold four of eight others are right
    assert calibration(scores.tolist(), found.right.tolist()).expected_error < 0.15
