"""The papers' recipes: their numbers, their plans, and a few steps of each at a size that a test can afford."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from osler.cli.main import app
from osler.clinic.raw import raw_texts
from osler.core.config import load_recipe, shipped_recipe
from osler.nn.presets import find_preset
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.run import run as build_corpus
from osler.stages.pretrain.config import PretrainRecipe
from osler.stages.pretrain.run import run
from osler.stages.vocab.config import VocabRecipe
from osler.stages.vocab.run import run as learn_vocabulary
from osler.train.schedule import warmup_steps

CARRINO = ("carrino2022/pretrain-bio", "carrino2022/pretrain-bio-ehr")
LEWIS = tuple(
    f"lewis2020/{size}-{text}" for size in ("base", "large") for text in ("pm", "pm-voc", "pm-m3", "pm-m3-voc")
)

# Copied from the papers' tables by hand: carrino2022 table 3 and section 3, lewis2020 sections 4.1 and 5.1.
SHARED = {"dropout": 0.1, "decay": 0.01, "beta1": 0.9, "beta2": 0.98, "eps": 1e-6, "masked": 0.15, "schedule": "linear"}
BASE = {"layers": 12, "hidden": 768, "inner": 3072, "heads": 12, "head": 64}
LARGE = {"layers": 24, "hidden": 1024, "inner": 4096, "heads": 16, "head": 64}
TABLE = {
    name: {**SHARED, **BASE, "warmup": 10_000, "peak": 0.0005, "batch": 2_048, "steps": 125_000} for name in CARRINO
}
TABLE |= {
    name: {**SHARED, **shape, "warmup": 25_000, "peak": peak, "batch": 8_192, "steps": 500_000}
    for size, shape, peak in (("base", BASE, 6e-4), ("large", LARGE, 4e-4))
    for name in LEWIS
    if f"/{size}-" in name
}


def read(name: str, **options) -> PretrainRecipe:
    return load_recipe(PretrainRecipe, shipped_recipe(name), options={"corpus": "c", "tokenizer": "t", **options})


def written(recipe: PretrainRecipe) -> dict[str, object]:
    """What a recipe says, in the words of the papers' tables."""
    shape, train = find_preset(recipe.preset), recipe.train
    assert train.steps is not None
    assert recipe.batch_tokens % recipe.max_length == 0
    return {
        "layers": shape.layers,
        "hidden": shape.width,
        "inner": shape.inner,
        "heads": shape.heads,
        "head": shape.width // shape.heads,
        "dropout": recipe.shape.dropout,
        "decay": train.weight_decay,
        "beta1": train.betas[0],
        "beta2": train.betas[1],
        "eps": train.eps,
        "masked": recipe.masking.rate,
        "schedule": train.schedule,
        "warmup": warmup_steps(train.warmup, train.steps),
        "peak": train.lr,
        "batch": recipe.batch_tokens // recipe.max_length * recipe.accumulate,
        "steps": train.steps,
    }


@pytest.mark.parametrize("name", [*CARRINO, *LEWIS])
def test_the_numbers_are_the_papers(name):
    recipe = read(name)
    assert written(recipe) == TABLE[name]
    # The same in both papers, or in Liu et al. 2019 and fairseq where the papers are silent.
    assert (recipe.max_length, recipe.train.clip, recipe.train.final_lr_ratio, recipe.train.optimizer) == (
        512,
        0,
        0,
        "adamw",
    )
    assert (recipe.masking.unit, recipe.masking.mask_share, recipe.masking.random_share) == ("subword", 0.8, 0.1)
    assert recipe.train.decay_vectors
    assert not recipe.train.spike
    assert not recipe.swap_vocabulary
    assert not recipe.ramp


def test_two_thousand_documents_validate_carrino_s_models():
    for name, documents in zip(CARRINO, (2_500_000, 2_500_000 + 514_000), strict=True):
        assert read(name).validation_share * documents == pytest.approx(2_000, rel=0.01)


@pytest.mark.parametrize("name", [name for name in LEWIS if not name.endswith("-voc")])
def test_a_learned_vocabulary_is_the_recipe_without_its_checkpoint(name):
    """Continual and from scratch differ in one line: start_from."""
    onward, scratch = read(name), read(f"{name}-voc")
    assert str(onward.start_from) == onward.preset
    assert scratch.start_from is None
    left = {key: value for key, value in onward.resolved().items() if key != "start_from"}
    assert left == scratch.resolved()


@pytest.mark.parametrize("name", CARRINO)
def test_carrino_s_models_start_from_random_weights(name):
    assert read(name).start_from is None
    onward = read(name, start_from="checkpoint")
    assert onward.identity() == read(name).identity()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small corpus of the synthetic clinic and a vocabulary learned from it."""
    folder = tmp_path_factory.mktemp("papers")
    with (folder / "raw.jsonl").open("w") as stream:
        stream.writelines(json.dumps(item) + "\n" for item in raw_texts(80, language="es", seed=0))
    build_corpus(CorpusRecipe(sources=[str(folder / "raw.jsonl")]), folder / "corpus")
    learn_vocabulary(VocabRecipe(corpus=folder / "corpus", size=500), folder / "tokenizer")
    return folder


REDUCED = {
    "shape": {"layers": 2, "width": 32, "heads": 2, "inner": 64, "dropout": 0.1},
    "max_length": 64,
    "batch_tokens": 512,
    "accumulate": 2,
    "validation_share": 0.1,
    "validation_tokens": 1024,
    "train.steps": 3,
    "train.warmup": 1,
    "train.eval_every": 2,
    "train.device": "cpu",
}


def pretrain(made: Path, name: str, out: Path, **options) -> dict[str, float]:
    places = {"corpus": made / "corpus", "tokenizer": made / "tokenizer", "tokens": made / "tokens"}
    recipe = load_recipe(PretrainRecipe, shipped_recipe(name), options={**REDUCED, **places, **options})
    return run(recipe, out).manifest.counts


@pytest.fixture(scope="module")
def checkpoint(made: Path) -> Path:
    """What the recipes that continue continue from."""
    pretrain(made, "carrino2022/pretrain-bio", made / "checkpoint", **{"train.steps": 1, "train.eval_every": 1})
    return made / "checkpoint"


@pytest.mark.parametrize("name", [*CARRINO, *LEWIS])
def test_a_few_steps_at_reduced_size(made, checkpoint, tmp_path, name):
    from transformers import AutoModelForMaskedLM

    onward = {} if read(name).start_from is None else {"start_from": checkpoint}
    counts = pretrain(made, name, tmp_path / "encoder", **onward)
    assert (counts["steps"], counts["tokens_seen"]) == (3, 3 * 2 * 512)
    stock = AutoModelForMaskedLM.from_pretrained(tmp_path / "encoder")
    assert (stock.config.vocab_size, stock.config.num_hidden_layers, stock.config.hidden_dropout_prob) == (500, 2, 0.1)


def test_the_saved_folder_fills_masks_with_stock_transformers(checkpoint):
    from transformers import pipeline

    fill = pipeline("fill-mask", model=str(checkpoint), device="cpu")
    found = fill("El paciente presenta <mask> leve.", top_k=500)
    assert sorted(entry["token"] for entry in found) == list(range(500)), "every entry once, and none of the padding"
    assert sum(entry["score"] for entry in found) == pytest.approx(1, abs=1e-4)


def test_without_its_checkpoint_a_continuing_recipe_stops_before_any_work(made, tmp_path, monkeypatch):
    from osler.core.errors import InputError

    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="roberta-base: no such folder"):
        pretrain(made, "lewis2020/base-pm", tmp_path / "encoder", tokens=tmp_path / "tokens")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [*CARRINO, *LEWIS])
def test_the_plan_of_a_dry_run(name):
    result = CliRunner().invoke(app, ["pretrain", "--recipe", name, "--dry-run", "--no-probe"])
    assert result.exit_code == 0, result.output
    lewis = name.startswith("lewis")
    assert ("500,000" if lewis else "125,000") in result.output
    assert not Path("runs").exists()


WADA = ("wada2020/pretrain", "wada2020/pretrain-512")
# scripts/README.md of wada2020's repository, and the script of NVIDIA that it names.
PHASES = {
    WADA[0]: {"length": 128, "batch": 65_536, "steps": 7_038, "peak": 6e-3, "warmup": 2_001, "tokens": 59e9},
    WADA[1]: {"length": 512, "batch": 32_768, "steps": 1_563, "peak": 4e-3, "warmup": 200, "tokens": 26e9},
}


@pytest.mark.parametrize("name", WADA)
def test_the_phases_of_oubiobert_are_the_repository_s(name):
    recipe = read(name, **({} if name == WADA[0] else {"start_from": "phase1"}))
    train, phase = recipe.train, PHASES[name]
    step = recipe.batch_tokens * recipe.accumulate
    assert (recipe.max_length, step // recipe.max_length) == (phase["length"], phase["batch"])
    assert (train.steps, train.lr, warmup_steps(train.warmup, train.steps)) == tuple(
        phase[key] for key in ("steps", "peak", "warmup")
    )
    assert step * train.steps == pytest.approx(phase["tokens"], rel=0.02)
    assert (train.optimizer, train.schedule, train.betas, train.eps) == ("lamb", "root", (0.9, 0.999), 1e-6)
    assert (train.weight_decay, train.decay_vectors, train.clip, train.spike) == (0.01, False, 1.0, 0.0)
    assert recipe.uses_pairs
    assert (recipe.masking.rate, recipe.masking.mask_share, recipe.masking.random_share) == (0.15, 0.8, 0.1)
    shape = find_preset("bert-base")
    assert (shape.layers, shape.width, shape.inner, shape.heads) == (12, 768, 3072, 12)


def test_oubiobert_s_phases_run_one_after_the_other_at_reduced_size(made, tmp_path):
    from transformers import BertForPreTraining

    options = {"tokenizer": made / "uncased", "tokens": None}
    learn_vocabulary(
        VocabRecipe(corpus=made / "corpus", algorithm="wordpiece", size=500, lowercase=True), made / "uncased"
    )
    first = pretrain(made, WADA[0], tmp_path / "phase1", **options)
    second = pretrain(
        made,
        WADA[1],
        tmp_path / "phase2",
        **options,
        start_from=tmp_path / "phase1",
        max_length=96,
        shape={},
    )
    assert (first["steps"], second["steps"]) == (3, 3)
    assert {"nsp_accuracy", "nsp_loss"} <= second.keys()
    assert len(second["trained_on"]) == 1, "both phases hold out the same documents"
    stock = BertForPreTraining.from_pretrained(tmp_path / "phase2")
    assert (stock.config.vocab_size, stock.config.num_hidden_layers, stock.config.type_vocab_size) == (500, 2, 2)


@pytest.mark.parametrize("name", WADA)
def test_the_plan_of_oubiobert(name):
    start = ["--from", "phase1"] if name == WADA[1] else []
    result = CliRunner().invoke(app, ["pretrain", "--recipe", name, *start, "--dry-run", "--no-probe"])
    assert result.exit_code == 0, result.exception
    assert f"{PHASES[name]['steps']:,} steps" in result.output
    assert "next-sentence prediction" in result.output
    if start:
        assert "start_from in a recipe" in str(
            CliRunner().invoke(app, ["pretrain", "--recipe", name, "--dry-run"]).exception
        )


def test_a_small_source_is_read_as_much_as_a_large_one():
    corpus = load_recipe(CorpusRecipe, shipped_recipe("wada2020/corpus"))
    assert {source.name: source.weight for source in corpus.sources} == {"small": 90.0, "large": 1.0}
