"""What a run refuses before it trains: one sentence that names the place, nothing left behind that was not there, no text quoted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from encoders import preset_lm
from tokenizers import Tokenizer

from osler.clinic.raw import raw_texts
from osler.core.config import load_recipe
from osler.core.errors import ArtifactError, InputError, OutputError, RecipeError
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.run import run as build_corpus
from osler.stages.pretrain import run as stage
from osler.stages.pretrain.config import PretrainRecipe
from osler.stages.pretrain.plan import full_plan
from osler.stages.vocab.config import VocabRecipe
from osler.stages.vocab.run import run as train_vocabulary

SETTINGS = (
    *("preset=tiny", "max_length=32", "batch_tokens=256", "validation_share=0.2", "validation_tokens=300"),
    *("train.steps=2", "train.device=cpu", "train.threads=1"),
)


def make_corpus(folder: Path, records: list[dict[str, str]]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "raw.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return build_corpus(CorpusRecipe(sources=[{"files": [str(folder / "raw.jsonl")]}]), folder / "corpus").path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    return make_corpus(tmp_path_factory.mktemp("refusals"), raw_texts(40, "en", 1))


def recipe(corpus: Path, tokenizer: Path, *sets: str, **given: Path) -> PretrainRecipe:
    return load_recipe(PretrainRecipe, None, (*SETTINGS, *sets), {"corpus": corpus, "tokenizer": tokenizer, **given})


def test_a_tokenizer_without_a_mask_is_named(corpus, tokenizer_folder, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    description = json.loads((tokenizer_folder / "tokenizer.json").read_text())
    description["added_tokens"] = [token for token in description["added_tokens"] if token["content"] != "<mask>"]
    del description["model"]["vocab"]["<mask>"]
    (bare / "tokenizer.json").write_text(json.dumps(description))
    assert Tokenizer.from_file(str(bare / "tokenizer.json")).token_to_id("<mask>") is None
    for refused in (lambda r: stage.run(r, tmp_path / "out"), lambda r: full_plan(r, tmp_path / "out", seconds=0)):
        with pytest.raises(ArtifactError, match="has no <mask> token") as found:
            refused(recipe(corpus, bare))
        assert found.value.where == str(bare / "tokenizer.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bare"]


@pytest.mark.parametrize("card", ["{", "[]", '{"sources": []}', '{"sources": {"raw": {}}}'])
def test_a_damaged_corpus_card_is_named(corpus, tokenizer_folder, tmp_path, card):
    broken = shutil.copytree(corpus, tmp_path / "corpus")
    (broken / "card.json").write_text(card)
    for refused in (lambda r: stage.run(r, tmp_path / "out"), lambda r: full_plan(r, tmp_path / "out", seconds=0)):
        with pytest.raises(ArtifactError, match="card is damaged") as found:
            refused(recipe(broken, tokenizer_folder))
        assert found.value.where == str(broken / "card.json")


def test_densities_that_the_corpus_does_not_state_are_asked_for(corpus, tokenizer_folder, tmp_path):
    for setting in ("density_weight=1", "order=density"):
        with pytest.raises(InputError, match="does not state the term density") as found:
            stage.run(recipe(corpus, tokenizer_folder, setting), tmp_path / "out")
        assert "density_terms" in str(found.value)
    with pytest.raises(RecipeError, match=r"needs train\.steps"):
        recipe(corpus, tokenizer_folder, "order=density", "train.steps=", "train.budget=5m")
    with pytest.raises(RecipeError, match="not supported with next_sentence"):
        recipe(corpus, tokenizer_folder, "preset=bert-base", "density_weight=1")


def test_an_encoder_is_trained_on_text_in_order_of_density(tokenizer_folder, tmp_path):
    texts = list(raw_texts(60, "en", 1))
    (tmp_path / "raw.jsonl").write_text("".join(json.dumps(record) + "\n" for record in texts))
    (tmp_path / "terms.txt").write_text(
        "\n".join(sorted({word for record in texts[::3] for word in record["text"].split()}))
    )
    given = {"sources": [str(tmp_path / "raw.jsonl")], "density_terms": tmp_path / "terms.txt", "workers": 1}
    dense = build_corpus(CorpusRecipe(**given), tmp_path / "corpus").path
    losses = {}
    for name, sets in {"plain": (), "order": ("order=density",), "weight": ("density_weight=1",)}.items():
        made = stage.run(recipe(dense, tokenizer_folder, *sets, tokens=tmp_path / "tokens"), tmp_path / name)
        losses[name] = made.counts["validation_loss"]
    assert len(set(losses.values())) == 3


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the GPU")
def test_a_device_that_is_not_there_is_said_before_the_corpus_is_tokenised(corpus, tokenizer_folder, tmp_path):
    with pytest.raises(RecipeError, match="no CUDA device"):
        stage.run(recipe(corpus, tokenizer_folder, "train.device=cuda"), tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("role", ["start_from", "distill.teacher"])
def test_weights_that_are_cut_short_are_named_before_the_corpus_is_tokenised(corpus, tokenizer_folder, tmp_path, role):
    model = tmp_path / "model"
    preset_lm("tiny", vocab_size=400, pad_token_id=1, max_length=32, seed=1).save(model)
    shutil.copyfile(tokenizer_folder / "tokenizer.json", model / "tokenizer.json")
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(ArtifactError, match="damaged or incomplete") as found:
        stage.run(recipe(corpus, tokenizer_folder, **{role: model}), tmp_path / "out")
    assert found.value.where == str(weights)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_text_the_tokenizer_cannot_write_is_no_perfect_score(corpus, tmp_path):
    words = VocabRecipe(corpus=corpus, size=200, algorithm="wordpiece", sample_documents=10)
    tokenizer = train_vocabulary(words, tmp_path / "tokenizer").path
    letters = "αβγδεζηθικλμν"
    greek = [{"text": " ".join(letters[(i * j) % 11 :] for j in range(1, 9)) * (3 + i)} for i in range(40)]
    with pytest.raises(InputError, match="no token to mask") as found:
        stage.run(recipe(make_corpus(tmp_path / "greek", greek), tokenizer), tmp_path / "out")
    assert not set(letters) & set(str(found.value))


def test_a_tokenised_corpus_of_something_else_is_kept(corpus, tokenizer_folder, tmp_path):
    tokens = tmp_path / "tokens"
    stage.run(recipe(corpus, tokenizer_folder, tokens=tokens), tmp_path / "out")
    before = {path: path.read_bytes() for path in tokens.rglob("*") if path.is_file()}
    with pytest.raises(OutputError, match="another validation_share") as found:
        stage.run(recipe(corpus, tokenizer_folder, "validation_share=0.3", tokens=tokens), tmp_path / "other")
    assert "tokens=FOLDER" in str(found.value)
    assert {path: path.read_bytes() for path in tokens.rglob("*") if path.is_file()} == before


def test_a_bundle_is_refused_before_the_corpus_is_tokenised(corpus, tokenizer_folder, tmp_path):
    bundle = tmp_path / "bundle"
    preset_lm("tiny", vocab_size=400, pad_token_id=1, max_length=32, seed=1).save(bundle)
    shutil.copyfile(tokenizer_folder / "tokenizer.json", bundle / "tokenizer.json")
    empty: dict[str, object] = {key: {} for key in ("recipe", "parents", "counts", "files")}
    (bundle / "manifest.json").write_text(json.dumps({"kind": "bundle", "identity": "", "format_version": 1, **empty}))
    for role in ("start_from", "distill.teacher"):
        with pytest.raises(ArtifactError, match="no longer has a language-model head"):
            stage.run(recipe(corpus, tokenizer_folder, **{role: bundle}), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_checkpoints_of_another_recipe_are_not_deleted(corpus, tokenizer_folder, tmp_path, monkeypatch):
    def killed(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(stage, "write_reports", killed)
    first, out = recipe(corpus, tokenizer_folder, "train.checkpoint_every=1"), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        stage.run(first, out)
    assert (tmp_path / "out.partial" / "checkpoints").is_dir()
    monkeypatch.undo()
    other = recipe(corpus, tokenizer_folder, "train.lr=1e-4")
    for refused in (lambda: stage.run(other, out), lambda: full_plan(other, out, seconds=0)):
        with pytest.raises(OutputError, match="unfinished run with another recipe") as found:
            refused()
        assert "--force" in str(found.value)
    assert stage.run(first, out).counts["steps"] == 2
    assert not (tmp_path / "out.partial").exists()


def test_a_teacher_with_more_tokens_says_what_the_student_lacks(corpus, tokenizer_folder, tmp_path):
    smaller = train_vocabulary(VocabRecipe(corpus=corpus, size=300), tmp_path / "smaller").path
    teacher = tmp_path / "teacher"
    preset_lm("tiny", vocab_size=350, pad_token_id=1, max_length=32, seed=1).save(teacher)
    larger = train_vocabulary(VocabRecipe(corpus=corpus, size=350), tmp_path / "larger").path
    shutil.copyfile(larger / "tokenizer.json", teacher / "tokenizer.json")
    with pytest.raises(ArtifactError, match="the student lacks 50 of its tokens"):
        stage.run(recipe(corpus, smaller, **{"distill.teacher": teacher}), tmp_path / "out")
