"""Small tasks, corpora and models that the tests of several tasks share."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from encoders import preset_encoder

from osler.core.artifact import Workspace, produce
from osler.core.config import Recipe
from osler.formats.registry import get_format
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.text.document import Document, Span

WORDS = {"DRUG": ("aspirin", "warfarin"), "DISEASE": ("fever", "cough"), "TEST": ("scan", "biopsy")}
_CARD = """
name = "{name}"
title = "{name}"
kind = "tagging"
language = "en"
labels = [{labels}]
protocol_family = "ner"
protocol = "strict"
[source]
reader = "files"
format = "jsonl"
splits.train.files = ["train.jsonl"]
splits.dev.files = ["dev.jsonl"]
splits.test.files = ["test.jsonl"]
"""


def note(seed: int, number: int, annotated: Sequence[str]) -> Document:
    """A few random syllables with one word of every type among them; only some types are annotated."""
    rng = np.random.default_rng([seed, number])
    words = ["".join(rng.choice(list("bdgklmn"), 2)) + str(rng.choice(list("aeiou"))) for _ in range(9)]
    placed = dict(zip(rng.permutation(9)[: len(WORDS)].tolist(), WORDS, strict=True))
    spans, text = [], ""
    for place, word in enumerate(words):
        label = placed.get(place)
        if label is not None:
            word = str(rng.choice(WORDS[label]))
            if label in annotated:
                spans.append(Span.at(len(text), len(text) + len(word), label, id=f"T{len(spans) + 1}"))
        text += word + " "
    return Document(f"{seed}-{number}", text + ".", tuple(spans))


MakeTask = Callable[..., Path]


@pytest.fixture(scope="module")
def make_task(tmp_path_factory: pytest.TempPathFactory) -> MakeTask:
    """Prepare a tagging task: its name, its labels, and documents (or how many new ones) for each split."""

    def make(name: str, labels: Sequence[str], *, seed: int, train=8, dev=3, test=3) -> Path:
        folder = tmp_path_factory.mktemp(name)
        place = 0
        for split, given in {"train": train, "dev": dev, "test": test}.items():
            if isinstance(given, int):
                documents = [note(seed, place + number, labels) for number in range(given)]
                place += given
            else:
                documents = list(given)
            get_format("jsonl").write(documents, folder / f"{split}.jsonl")
        (folder / "card.toml").write_text(_CARD.format(name=name, labels=", ".join(f'"{label}"' for label in labels)))
        return prepare(PrepareRecipe(task=str(folder / "card.toml"), source=folder), folder / name).path

    return make


class Made(Recipe):
    """A corpus of given texts."""

    texts: tuple[str, ...]


@pytest.fixture(scope="module")
def make_corpus(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Sequence[str]], Path]:
    """Write a corpus artifact."""

    def make(texts: Sequence[str]) -> Path:
        def build(work: Workspace) -> None:
            (work.path / "shards").mkdir(exist_ok=True)
            columns = {"id": [str(n) for n in range(len(texts))], "text": list(texts)}
            columns |= {"source": ["toy"] * len(texts), "language": ["en"] * len(texts)}
            pq.write_table(pa.table(columns), work.path / "shards" / "00000.parquet", row_group_size=4)

        folder = tmp_path_factory.mktemp("corpora") / "corpus"
        return produce(folder, kind="corpus", recipe=Made(texts=tuple(texts)), parents={}, build=build).path

    return make


@pytest.fixture(scope="module")
def models(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same small BERT with its language-model head and without."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=400,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        pad_token_id=1,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    torch.manual_seed(0)
    model = BertForMaskedLM(config)
    made = {name: tmp_path_factory.mktemp(name) for name in ("masked", "plain")}
    model.save_pretrained(made["masked"])
    model.bert.save_pretrained(made["plain"])
    for folder in made.values():
        shutil.copyfile(tokenizer_folder / "tokenizer.json", folder / "tokenizer.json")
    return made


@pytest.fixture(scope="module")
def model(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder with random weights."""
    folder = tmp_path_factory.mktemp("model")
    preset_encoder("tiny", vocab_size=400, pad_token_id=1, max_length=64, seed=1).save(folder)
    shutil.copyfile(tokenizer_folder / "tokenizer.json", folder / "tokenizer.json")
    return folder
