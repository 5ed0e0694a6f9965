"""A head scored on another corpus, and mentions that training had seen scored apart from the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from bundles import make_bundle

from osler.artifacts.bundle import Bundle
from osler.artifacts.evaluation import Evaluation
from osler.core.errors import RecipeError
from osler.formats.registry import get_format
from osler.stages.evaluate.config import EvaluateRecipe
from osler.stages.evaluate.run import plan, run
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.text.document import Document, Span

_CARD = """
name = "{name}"
title = "{name}"
kind = "tagging"
language = "en"
labels = ["{label}"]
protocol = "plain"
[protocols.plain]
metric = "f1"
[source]
reader = "files"
format = "jsonl"
splits.train.files = ["train.jsonl"]
splits.dev.files = ["train.jsonl"]
splits.test.files = ["test.jsonl"]
"""
TEXTS = {"train": ["Aspirin and Heparin."], "test": ["ASPIRIN then statin.", "Given  heparin; no statin."]}
WORDS = ("aspirin", "heparin", "statin")


def document(number: int, text: str, label: str) -> Document:
    lower = text.lower()
    places = sorted((lower.index(word), word) for word in WORDS if word in lower)
    spans = (Span.at(at, at + len(word), label, id=f"T{n}") for n, (at, word) in enumerate(places, 1))
    return Document(str(number), text, tuple(spans))


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory):
    def task(name: str, label: str, texts: dict[str, list[str]] = TEXTS) -> Path:
        folder = tmp_path_factory.mktemp(name)
        for split, lines in texts.items():
            documents = [document(number, text, label) for number, text in enumerate(lines)]
            get_format("jsonl").write(documents, folder / f"{split}.jsonl")
        (folder / "card.toml").write_text(_CARD.format(name=name, label=label))
        return prepare(PrepareRecipe(task=str(folder / "card.toml"), source=folder), folder / name).path

    return task


@pytest.fixture(scope="module")
def bundle(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bundle(tmp_path_factory.mktemp("bundle") / "bundle", tokenizer_folder, ("drugs",))


def recipe(bundle: Path, task: Path, **more) -> EvaluateRecipe:
    return EvaluateRecipe.model_validate({"bundle": bundle, "task": task, "head": "drugs", "device": "cpu"} | more)


@pytest.fixture
def finds(monkeypatch):
    """Let the head find given words, so that the scores are known."""

    def set_to(*words: str) -> None:
        def predict(self, name, records, *, task=None, **_):
            found = []
            for record in records:
                lower = record.text.lower()
                spans = [
                    Span.at(lower.index(w), lower.index(w) + len(w), "DRUG", id=w, score=0.5)
                    for w in words
                    if w in lower
                ]
                found.append(record.with_(spans=tuple(spans), relations=()))
            return [one.only(task.labels) for one in found] if task else found

        monkeypatch.setattr(Bundle, "predict", predict)

    return set_to


def test_seen_and_unseen_mentions_are_scored_apart(bundle, make, finds, tmp_path):
    finds("aspirin", "statin", "given")
    metrics = Evaluation.open(run(recipe(bundle, make("a", "DRUG"), seen=True), tmp_path / "out").path).metrics
    # Seen, whatever the case: aspirin, found, and heparin, missed. Unseen: statin twice, found, and one wrong word.
    assert metrics.metrics["seen_recall"] == 0.5
    assert metrics.metrics["unseen_recall"] == 1.0
    assert metrics.metrics["seen_f1"] == pytest.approx(2 / 3)
    assert metrics.metrics["unseen_f1"] == pytest.approx(0.8)
    assert metrics.details["forms"]["known"] == 2
    assert metrics.main == pytest.approx(6 / 8)


def test_another_corpus_may_be_what_was_seen(bundle, make, finds, tmp_path):
    finds("statin")
    other = make("other", "Chemical", {"train": ["Statin."], "test": ["x"]})
    given = recipe(bundle, make("b", "DRUG"), seen=True, seen_in=[other])
    assert any("seen in training (other)" in line for line in plan(given, tmp_path / "out"))
    metrics = Evaluation.open(run(given, tmp_path / "out").path).metrics.metrics
    assert (metrics["seen_recall"], metrics["unseen_recall"]) == (1.0, 0.0)
    with pytest.raises(RecipeError, match="no effect without --seen"):
        plan(recipe(bundle, make("c", "DRUG"), seen_in=[other]), tmp_path / "x")


def test_labels_of_another_corpus_are_mapped(bundle, make, finds, tmp_path):
    finds("aspirin", "heparin", "statin")
    task = make("d", "Chemical")
    with pytest.raises(RecipeError, match="none of the task's labels") as caught:
        run(recipe(bundle, task), tmp_path / "out")
    assert "--label HEAD=TASK. Head: DRUG, DOSE. Task: Chemical" in str(caught.value)
    made = Evaluation.open(run(recipe(bundle, task, label_map=["DRUG=Chemical"]), tmp_path / "out").path)
    assert made.metrics.main == 1.0
    assert {span.label for record in made.predictions() for span in record.spans} == {"Chemical"}
    with pytest.raises(RecipeError, match="the head drugs has no label 'DRUGS'"):
        run(recipe(bundle, task, label_map={"DRUGS": "Chemical"}), tmp_path / "x")
    with pytest.raises(RecipeError, match="the task d has no label 'Chem'"):
        run(recipe(bundle, task, label_map={"DRUG": "Chem"}), tmp_path / "x")


def test_evaluations_of_before_are_recognised():
    identity = EvaluateRecipe(bundle="b", task="t").identity()
    assert identity == {"head": None, "split": "test", "protocol": None}
