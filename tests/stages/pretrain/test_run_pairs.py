"""Next-sentence prediction from text to a folder that stock transformers loads: learned, resumed and continued."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from osler.core.artifact import identity_of
from osler.core.config import load_recipe
from osler.core.errors import ArtifactError, OutputError, RecipeError
from osler.nn.encoder import load_pooler
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.run import run as build_corpus
from osler.stages.pretrain import run as stage
from osler.stages.pretrain.config import PretrainRecipe
from osler.stages.pretrain.plan import full_plan
from osler.train.loop import TrainingRun

OPENINGS, CLOSINGS = ["Fever", "pain", "cough", "nausea"], ["Discharged", "home", "stable", "recovered"]
TINY = (
    *("preset=bert-base", "shape.layers=1", "shape.width=32", "shape.heads=2", "shape.inner=64", "max_length=24"),
    *("batch_tokens=1024", "validation_share=0.2", "validation_tokens=4000", "train.device=cpu", "train.threads=1"),
    *(
        "train.lr=5e-3",
        "train.steps=80",
        "train.eval_every=40",
        "train.log_every=5",
        "train.checkpoint_every=40",
        "train.decay=0.6",
    ),
)


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> dict[str, Path]:
    """Documents of two sentences: the first only has words of complaint, the second only words of discharge."""
    folder = tmp_path_factory.mktemp("pairs")
    rng = np.random.default_rng(0)
    texts = [
        " ".join(f"{' '.join([words[0], *rng.choice(words[1:], 6)])}." for words in (OPENINGS, CLOSINGS))
        for _ in range(300)
    ]
    (folder / "raw.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    source = {"files": [str(folder / "raw.jsonl")], "clean": "none"}
    build_corpus(CorpusRecipe(sources=[source], workers=1), folder / "corpus")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *OPENINGS, *CLOSINGS]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(words[:5])
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    (folder / "tokenizer").mkdir()
    tokenizer.save(str(folder / "tokenizer" / "tokenizer.json"))
    return {name: folder / name for name in ("corpus", "tokenizer", "tokens")}


def recipe(places: dict[str, Path], *sets: str, **options) -> PretrainRecipe:
    return load_recipe(PretrainRecipe, None, (*TINY, *sets), {**places, "workers": 1, **options})


@pytest.fixture(scope="module")
def made(places, tmp_path_factory) -> Path:
    return stage.run(recipe(places), tmp_path_factory.mktemp("encoder") / "out").path


def test_both_losses_fall_and_second_texts_are_told_apart(made):
    history = json.loads((made / "history.json").read_text())
    losses = [record["loss/nsp"] for record in history if record["kind"] == "train"]
    assert np.mean(losses[-3:]) < 0.85 * np.mean(losses[:3])
    counts = json.loads((made / "manifest.json").read_text())["counts"]
    # A second text of another document is a first or a second sentence: 75 % is the most that can be known.
    assert 0.65 < counts["nsp_accuracy"] < 0.85
    assert 0 < counts["nsp_loss"] < 0.65
    assert "next sentence" in (made / "README.md").read_text()


def test_stock_transformers_loads_pooler_and_both_heads(made):
    from transformers import AutoModel, AutoModelForMaskedLM, BertForPreTraining

    weights = load_file(made / "model.safetensors")
    model, report = BertForPreTraining.from_pretrained(made, output_loading_info=True)
    assert not any(report[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert (model.config.type_vocab_size, model.config.max_position_embeddings) == (2, 512)
    bare, report = AutoModel.from_pretrained(made, output_loading_info=True)
    assert not report["missing_keys"]
    assert np.array_equal(bare.pooler.dense.weight.detach().numpy(), weights["bert.pooler.dense.weight"])
    assert np.array_equal(load_pooler(made)["weight"].numpy(), weights["bert.pooler.dense.weight"])
    assert not AutoModelForMaskedLM.from_pretrained(made, output_loading_info=True)[1]["missing_keys"]
    # [CLS] Fever pain . [SEP] home stable . [SEP] against the same with words of complaint as second text
    follows, random = [[2, 6, 7, 5, 3, 11, 12, 5, 3], [2, 6, 7, 5, 3, 6, 7, 5, 3]]
    types = torch.tensor([[0] * 5 + [1] * 4] * 2)
    with torch.no_grad():
        scores = model(input_ids=torch.tensor([follows, random]), token_type_ids=types).seq_relationship_logits
    assert scores[0, 0] - scores[0, 1] > scores[1, 0] - scores[1, 1]
    assert scores[1].argmax() == 1


def test_a_run_that_was_broken_off_ends_with_the_same_bytes(places, made, tmp_path, monkeypatch):
    save = TrainingRun._save

    def die_after_saving(self: TrainingRun) -> None:
        save(self)
        raise KeyboardInterrupt

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(TrainingRun, "_save", die_after_saving)
            with pytest.raises(KeyboardInterrupt):
                stage.run(recipe(places), tmp_path / "broken")
    again = stage.run(recipe(places), tmp_path / "broken")
    assert again.manifest.files == json.loads((made / "manifest.json").read_text())["files"]


def test_a_second_phase_continues_with_longer_texts(places, made, tmp_path):
    longer = recipe(
        places, "max_length=48", "next_sentence=true", "train.steps=2", "train.eval_every=2", start_from=made
    )
    for name in ("preset", "shape"):
        longer = longer.changed(**{name: PretrainRecipe.model_fields[name].default})
    second = stage.run(longer, tmp_path / "second")
    assert second.counts["nsp_accuracy"] > 0.5
    plain = stage.run(longer.changed(next_sentence=None, tokens=None), tmp_path / "plain")
    assert "nsp_accuracy" not in plain.counts
    assert "bert.pooler.dense.weight" not in load_file(plain.path / "model.safetensors")
    with pytest.raises(ArtifactError, match="BERT's pooler and its head for pairs"):
        stage.run(longer.changed(start_from=plain.path), tmp_path / "third")


def test_the_plan_names_the_objective_and_its_probe_has_pairs(places, tmp_path):
    lines = "\n".join(full_plan(recipe(places), tmp_path / "out", seconds=0.2))
    assert "next-sentence prediction: pairs of texts" in lines
    assert "tokens/s" in lines


def test_mistakes_are_named(places, tmp_path):
    with pytest.raises(RecipeError, match="next_sentence needs BERT's architecture"):
        recipe(places, "next_sentence=true", "preset=roberta-base")
    with pytest.raises(RecipeError, match="not supported with a teacher"):
        recipe(places, "next_sentence=true", **{"distill.teacher": "t"})
    assert not recipe(places, "next_sentence=false").uses_pairs
    shutil.copytree(places["tokens"], tmp_path / "tokens")
    with pytest.raises(OutputError, match="tokenised from other text"):
        stage.run(recipe(places, "next_sentence=false", tokens=tmp_path / "tokens"), tmp_path / "out")


def test_other_encoders_are_recognised_as_before():
    plain = PretrainRecipe(corpus="c", tokenizer="t", preset="roberta-base")
    # Made before there was next-sentence prediction.
    assert identity_of("encoder", plain, {}) == "dd6ab6c085301a7700fa06c5a344198e0da01dd3ef6a8f3b427d5d2d99fdb3f4"
