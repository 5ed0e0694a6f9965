"""Fine-tuning on several tasks never shows one task what another is tested on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from osler.artifacts.task_folder import TaskFolder
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.run import prepare
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
    assert together.leaked == {"one": 2, "two": 1}
    assert {name: len(data.instances) for name, data in together.instances.items()} == {"one": 2, "two": 2}
    assert prepare(recipe.changed(tasks=(one.artifact.path,)), model, [one]).leaked == {"one": 0}


def test_what_the_result_will_be_tested_on_later_is_kept_out_too(make_task, tmp_path, tokenizer_folder):
    one = task(make_task, "one", train=[1, 2, 3, 4], dev=[5], test=[6])
    later = task(make_task, "later", train=[2], dev=[3], test=[4])
    model = tiny_model(tokenizer_folder, tmp_path / "model")
    paths = {"tasks": (one.artifact.path,), "keep_out": (later.artifact.path,)}
    recipe = FinetuneRecipe(model=str(model), **paths, max_length=64, overlap=8)
    refining = prepare(recipe, model, [one])
    assert refining.leaked == {"one": 2}  # 3 and 4; what `later` trains on may stay
    assert list(refining.instances) == ["one"]
