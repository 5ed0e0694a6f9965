"""From the notes of patients to a model card: licences are carried along, and every later step holds out the same patients."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from osler.artifacts.corpus import Corpus
from osler.artifacts.encoder import Encoder
from osler.core.config import load_recipe
from osler.core.errors import RecipeError
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.run import run as build_corpus
from osler.stages.pretrain import run as stage
from osler.stages.pretrain.config import PretrainRecipe
from osler.stages.pretrain.model import trainings
from osler.stages.pretrain.tokenise import hash_share

SHARE = 0.3
TINY = (
    *("preset=tiny", "shape.layers=1", "shape.width=32", "shape.heads=2", "shape.inner=64", "max_length=32"),
    *("batch_tokens=256", f"validation_share={SHARE}", "validation_tokens=300", "train.device=cpu", "train.threads=1"),
    *("train.steps=2", "train.eval_every=2", "train.log_every=1", "train.checkpoint_every=2", "train.lr=1e-3"),
)
LICENCES = ("CC BY 4.0", "CC0", "CC BY-NC 4.0", None)


@pytest.fixture(scope="module")
def places(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("patients")
    rows = [
        {"text": f"He was given aspirin {n} mg for chest pain.", "who": f"p{n % 20}", "rights": LICENCES[n % 4]}
        for n in range(160)
    ]
    rows.append(rows[0] | {"who": "p1"})  # copied into the record of another patient
    (folder / "raw.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = {
        "name": "notes",
        "files": [str(folder / "raw.jsonl")],
        "facts": {"patient": "who", "licence": "rights"},
        "licence": "CC0",
        "clean": "clinical",
    }
    build_corpus(CorpusRecipe(sources=[source], licences=["CC0", "CC BY 4*"], workers=1), folder / "corpus")
    return {"corpus": folder / "corpus", "tokenizer": tokenizer_folder, "tokens": folder / "tokens"}


def recipe(places: dict[str, Path], *sets: str, **options) -> PretrainRecipe:
    return load_recipe(PretrainRecipe, None, (*TINY, *sets), {**places, "workers": 1, **options})


@pytest.fixture(scope="module")
def made(places, tmp_path_factory) -> Path:
    return stage.run(recipe(places), tmp_path_factory.mktemp("encoder") / "out").path


def _documents(corpus: Path) -> list[dict[str, str]]:
    columns = ["patient", "licence", "text"]
    return [row for shard in Corpus.open(corpus).shards for row in pq.read_table(shard, columns=columns).to_pylist()]


def test_the_model_card_has_the_licences_of_the_documents_that_were_kept(places, made) -> None:
    kept = Counter(row["licence"] for row in _documents(places["corpus"]))
    assert set(kept) == {"CC BY 4.0", "CC0"}
    card = (made / "README.md").read_text()
    assert f"CC0 ({kept['CC0']}); CC BY 4.0 ({kept['CC BY 4.0']})" in card
    assert "CC BY-NC" not in card
    assert "hash of their patient" in card


def test_distillation_holds_out_the_patients_that_pretraining_held_out(places, made, tmp_path) -> None:
    held_out = sum(hash_share(row["patient"]) < SHARE for row in _documents(places["corpus"]))
    student = stage.run(recipe(places, **{"distill.teacher": made}), tmp_path / "student")
    [first], [second, *_] = trainings(made), trainings(student.path)
    assert first == second
    assert first.hash == "blake2b-64-patient"
    for folder in (made, student.path):
        assert f"| held out | {held_out} documents" in (folder / "README.md").read_text()
        assert Encoder.open(folder).manifest is not None
    with pytest.raises(RecipeError, match="trained on this corpus"):
        stage.run(recipe(places, "validation_share=0.4", **{"distill.teacher": made}), tmp_path / "other")


@pytest.mark.parametrize(("copies", "owners"), [("remove", ["p0"]), ("keep", ["p0", "p1"])])
def test_a_note_copied_between_patients_belongs_to_the_first_unless_copies_are_kept(tmp_path, copies, owners) -> None:
    text = "He was given aspirin for chest pain and went home."
    raw = tmp_path / "raw.jsonl"
    raw.write_text("".join(json.dumps({"id": who, "text": text, "who": who}) + "\n" for who in ("p0", "p1")))
    source = {"files": [str(raw)], "facts": {"patient": "who"}}
    corpus = build_corpus(CorpusRecipe(sources=[source], exact_duplicates=copies, workers=1), tmp_path / "corpus")
    assert [row["patient"] for row in _documents(corpus.path)] == owners
    removed = pq.read_table(corpus.ledger_path, columns=["id", "kept_id"]).to_pylist()
    assert removed == ([{"id": "p1", "kept_id": "p0"}] if copies == "remove" else [])
