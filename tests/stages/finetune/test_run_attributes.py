"""A head for attributes is trained beside others, evaluated, and used on what a tagger finds."""

from __future__ import annotations

import json

import pytest

from osler.formats.registry import get_format
from osler.stages.evaluate.config import EvaluateRecipe
from osler.stages.evaluate.run import run as evaluate
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.run import run
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.text.document import Document, Span

CARD = """
name = "negation"
title = "Negation"
kind = "attributes"
language = "en"
labels = ["negated"]
mentions = ["X"]
protocol_family = "attributes"
protocol = "micro"
[source]
reader = "files"
format = "jsonl"
splits.train.files = ["train.jsonl"]
splits.dev.files = ["dev.jsonl"]
splits.test.files = ["test.jsonl"]
"""


def note(number: int) -> Document:
    """A word twice, negated in one place: only what is before it tells."""
    word = ("aspirin", "warfarin", "fever", "cough")[number % 4]
    parts = [("no", True), ("has", False)]
    text, spans = "", []
    for cue, negated in parts if number % 2 else reversed(parts):
        text += f"{cue} "
        attributes = {"negated": "yes"} if negated else {}
        spans.append(Span.at(len(text), len(text) + len(word), "X", id=f"T{len(spans) + 1}", attributes=attributes))
        text += f"{word} . "
    return Document(str(number), text, tuple(spans))


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    folder = tmp_path_factory.mktemp("negation")
    for split, numbers in {"train": range(40), "dev": range(40, 48), "test": range(48, 60)}.items():
        get_format("jsonl").write([note(number) for number in numbers], folder / f"{split}.jsonl")
    (folder / "card.toml").write_text(CARD)
    return prepare(PrepareRecipe(task=str(folder / "card.toml"), source=folder), folder / "task").path


@pytest.mark.parametrize("class_weights", ["none", "balanced"])
def test_an_attribute_head_learns_what_the_words_around_a_mention_say(task, model, tmp_path, class_weights):
    recipe = FinetuneRecipe.model_validate(
        {
            "model": str(model),
            "tasks": [task],
            "max_length": 64,
            "overlap": 8,
            "epochs": 12,
            "batch_size": 8,
            "class_weights": class_weights,
            "train": {"lr": 3e-3, "device": "cpu", "threads": 1, "checkpoint_every": 0},
        }
    )
    made = run(recipe, tmp_path / "bundle")
    scored = evaluate(
        EvaluateRecipe(bundle=made.path, task=task, split="test", device="cpu", errors=True), tmp_path / "e"
    )
    assert scored.counts["f1"] > 0.9
    errors = json.loads((scored.path / "errors.json").read_text())
    assert errors["classes"]["correct"] >= 10
    assert (scored.path / "errors.csv").read_text().startswith("document,class,gold_type,predicted_type")
