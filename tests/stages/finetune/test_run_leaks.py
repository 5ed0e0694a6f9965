"""Fine-tuning on several tasks never shows one task what another is tested on."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from osler.artifacts.task_folder import TaskFolder
from osler.core.errors import RecipeError
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.run import plan, prepare, run
from osler.tasks.leakage import Leaks
from osler.text.document import Document, Span


def note(number: int) -> Document:
    text = f"aspirin was given to patient {number} on day {number} for the pain in joint {number} ."
    return Document(f"n{number}", text, (Span.at(0, 7, "DRUG", id="T1"),))


def task(make_task: Callable[..., Path], name: str, **splits: list[int]) -> TaskFolder:
    documents = {split: [note(number) for number in numbers] for split, numbers in splits.items()}
    return TaskFolder.open(make_task(name, ["DRUG"], seed=0, **documents))


def tiny_model(tokenizer_folder: Path, folder: Path) -> Path:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=400,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=130,
    )
    BertModel(config).save_pretrained(folder)
    shutil.copyfile(tokenizer_folder / "tokenizer.json", folder / "tokenizer.json")
    return folder


def test_documents_that_any_task_holds_out_are_removed_from_training_and_counted(make_task, tmp_path, tokenizer_folder):
    one = task(make_task, "one", train=[1, 2, 3, 4], dev=[5], test=[6])
    two = task(make_task, "two", train=[6, 7, 8], dev=[3], test=[4])
    model = tiny_model(tokenizer_folder, tmp_path / "model")
    recipe = FinetuneRecipe(model=str(model), tasks=(one.artifact.path, two.artifact.path), max_length=64, overlap=8)
    together = prepare(recipe, model, [one, two])
    assert together.leaks == {
        "one": Leaks(2, 4, Counter({"dev of two": 1, "test of two": 1})),
        "two": Leaks(1, 3, Counter({"test of one": 1})),
    }
    assert {name: len(data.instances) for name, data in together.instances.items()} == {"one": 2, "two": 2}
    assert prepare(recipe.changed(tasks=(one.artifact.path,)), model, [one]).leaks["one"].found == 0


def test_what_the_result_will_be_tested_on_later_is_kept_out_too(make_task, tmp_path, tokenizer_folder):
    one = task(make_task, "one", train=[1, 2, 3, 4], dev=[5], test=[6])
    later = task(make_task, "later", train=[2], dev=[3], test=[4])
    model = tiny_model(tokenizer_folder, tmp_path / "model")
    paths = {"tasks": (one.artifact.path,), "keep_out": (later.artifact.path,)}
    recipe = FinetuneRecipe(model=str(model), **paths, max_length=64, overlap=8)
    refining = prepare(recipe, model, [one])
    assert refining.leaks["one"].found == 2  # 3 and 4; what `later` trains on may stay
    assert list(refining.instances) == ["one"]


def test_what_is_removed_is_said_with_its_reason_and_the_setting_that_keeps_it(
    make_task, tmp_path, tokenizer_folder, capsys
):
    one = task(make_task, "one", train=[1, 2, 3, 4], dev=[5], test=[6])
    two = task(make_task, "two", train=[6, 7, 8], dev=[3], test=[4])
    model = tiny_model(tokenizer_folder, tmp_path / "model")
    values = {"model": str(model), "tasks": (one.artifact.path, two.artifact.path), "max_length": 64, "overlap": 8}
    recipe = FinetuneRecipe.model_validate(values | {"epochs": 1, "train": {"device": "cpu"}})
    sentence = (
        "one: 2 of 4 training documents are also in dev of two (1), test of two (1); "
        "they are left out (--set leaks=keep trains on them)"
    )
    assert sentence in plan(recipe, tmp_path / "out", dry_run=True)
    made = run(recipe, tmp_path / "out")
    assert f"warning: {sentence}" in capsys.readouterr().err.splitlines()
    assert sentence in (made.path / "README.md").read_text()
    assert made.counts["leaked_removed"] == {"one": 2, "two": 1}

    kept = run(recipe.changed(leaks="keep"), tmp_path / "kept")
    assert "they are trained on (leaks = keep), so scores there are too high" in capsys.readouterr().err
    assert kept.counts["leaked_removed"] == {"one": 0, "two": 0}
    assert kept.counts["trained_on"] == {"one": 4, "two": 3}


def test_a_task_that_others_hold_out_whole_is_an_error_with_the_reason(make_task, tmp_path, tokenizer_folder):
    one = task(make_task, "one", train=[3, 4], dev=[5], test=[6])
    two = task(make_task, "two", train=[7, 8], dev=[3], test=[4])
    model = tiny_model(tokenizer_folder, tmp_path / "model")
    recipe = FinetuneRecipe(model=str(model), tasks=(one.artifact.path, two.artifact.path), max_length=64, overlap=8)
    with pytest.raises(
        RecipeError, match=r"no training document of one is left. one: 2 of 2 .* in dev of two \(1\), test of two \(1\)"
    ):
        prepare(recipe, model, [one, two])


def test_what_cannot_be_learned_is_said_before_training_and_at_its_end(make_task, tmp_path, tokenizer_folder, capsys):
    text = "aspirin and warfarin were given to the patient ."
    nested = Document("n", text, (Span.at(0, 20, "DRUG", id="T1"), Span.at(0, 7, "DRUG", id="T2")))
    inside = Document("i", text, (Span.at(0, 4, "DRUG", id="T1"), Span.at(12, 20, "DRUG", id="T2")))
    made = make_task("odd", ["DRUG"], seed=0, train=[nested, inside], dev=[note(1)], test=[note(2)])
    model = tiny_model(tokenizer_folder, tmp_path / "model")
    values = {"model": str(model), "tasks": (made,), "max_length": 64, "overlap": 8, "epochs": 1}
    recipe = FinetuneRecipe.model_validate(values | {"train": {"device": "cpu"}})
    sentence = (
        "odd: 2 of 4 annotations cannot be learned as they are: 1 overlapping, nested or discontinuous mentions, "
        "1 mentions that begin or end inside a word"
    )
    assert sentence in plan(recipe, tmp_path / "out", dry_run=True)
    shown: list[str] = []
    run(recipe, tmp_path / "out", show=shown.extend)
    assert sentence in shown
    assert f"warning: {sentence}" in capsys.readouterr().err.splitlines()
    run(recipe, tmp_path / "again")  # as in a study, whose runs are many
    assert sentence not in capsys.readouterr().err
