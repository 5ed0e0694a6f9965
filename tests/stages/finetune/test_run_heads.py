"""The layers of sequence heads: a linear one, BERT's own pooler, and heads that are not trained."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import BundleSpec
from osler.artifacts.task_folder import TaskFolder
from osler.core.errors import ArtifactError, RecipeError
from osler.nn.multihead import MultiHeadModel, pooler_of
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.run import plan, run
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare

SPECIALTY, TREATMENTS = "clinic-specialty-en", "clinic-treatments-en"


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    sizes = {"train": 4, "dev": 2, "test": 2}
    return {
        name: prepare(PrepareRecipe(task=name, options=sizes), folder / name).path for name in (SPECIALTY, TREATMENTS)
    }


@pytest.fixture(scope="module")
def with_pooler(models, tmp_path_factory):
    """The small BERT as it is published: with language-model head, pooler and next-sentence prediction."""
    from transformers import BertConfig, BertForPreTraining

    torch.manual_seed(1)
    folder = tmp_path_factory.mktemp("published")
    model = BertForPreTraining(BertConfig.from_pretrained(models["plain"]))
    model.save_pretrained(folder)
    shutil.copyfile(models["plain"] / "tokenizer.json", folder / "tokenizer.json")
    return folder


def recipe(model, *tasks, **more):
    values = {"model": str(model), "tasks": tasks, "max_length": 64, "overlap": 8, "epochs": 1}
    train = {"lr": 1e-3, "device": "cpu", "threads": 1, "checkpoint_every": 0, "steps": 2}
    return FinetuneRecipe.model_validate(values | {"train": train | more.pop("train", {})} | more)


def heads(folder):
    return load_file(folder / "heads.safetensors")


def initial(made, model, seed=1):
    """Weights of the heads of a bundle before training."""
    fresh = MultiHeadModel(Bundle.load(made, "cpu").model.encoder)
    for name, spec in Bundle.load(made, "cpu").model.specs.items():
        fresh.add_head(name, spec.kind, spec.num_labels, seed=seed, dropout=spec.dropout, layers=spec.layers)
    return {name: value.numpy() for name, value in fresh.heads.state_dict().items()}


def test_a_linear_head_is_one_layer_and_the_bundle_knows_it(model, tasks, tmp_path):
    given = recipe(model, *tasks.values(), head="linear", relations="markers")
    made = run(given, tmp_path / "bundle").path
    width = load_file(made / "model.safetensors")["embeddings.tok_embeddings.weight"].shape[1]
    found = {name: value.shape for name, value in heads(made).items()}
    assert set(found) == {f"{name}.out_proj.{part}" for name in tasks for part in ("weight", "bias")}
    assert found[f"{SPECIALTY}.out_proj.weight"][1] == width
    assert found[f"{TREATMENTS}.out_proj.weight"][1] == 2 * width  # one linear layer over two markers
    assert BundleSpec.load(made).heads[SPECIALTY].options.head == "linear"
    loaded = Bundle.load(made, "cpu")
    assert {spec.layers for spec in loaded.model.specs.values()} == {"linear"}
    assert loaded.predict(SPECIALTY, TaskFolder.open(tasks[SPECIALTY]).read("dev"))
    assert "heads of one linear layer" in (made / "README.md").read_text()
    assert "heads of one linear layer" in plan(given, tmp_path / "bundle")


def test_the_default_head_is_written_as_before(model, tasks, tmp_path):
    made = run(recipe(model, tasks[SPECIALTY]), tmp_path / "bundle").path
    written = json.loads((made / "bundle.json").read_text())["heads"][SPECIALTY]["options"]
    assert set(written) == {"tagger", "decoding", "relations"}
    assert set(json.loads((made / "heads.json").read_text())["heads"][SPECIALTY]) == {
        "kind",
        "num_labels",
        "labels",
        "dropout",
        "settings",
    }


def test_a_pooler_starts_from_the_checkpoint_and_is_trained(with_pooler, tasks, tmp_path):
    own = load_file(with_pooler / "model.safetensors")["bert.pooler.dense.weight"]
    still = run(recipe(with_pooler, tasks[SPECIALTY], head="pooler", train_heads=False), tmp_path / "still").path
    assert np.array_equal(heads(still)[f"{SPECIALTY}.dense.weight"], own)
    made = run(recipe(with_pooler, tasks[SPECIALTY], head="pooler"), tmp_path / "bundle").path
    trained = heads(made)[f"{SPECIALTY}.dense.weight"]
    assert (trained != own).any()
    assert np.abs(trained - own).max() < 0.01
    again = Bundle.load(made, "cpu")
    assert again.model.specs[SPECIALTY].layers == "pooler"
    # Without the checkpoint's weights its pooler is not used either.
    fresh = run(recipe(with_pooler, tasks[SPECIALTY], head="pooler", reinitialise=True), tmp_path / "fresh").path
    assert np.abs(heads(fresh)[f"{SPECIALTY}.dense.weight"] - own).max() > 0.01


def test_tasks_trained_together_share_the_pooler_and_the_next_training_starts_from_it(with_pooler, tasks, tmp_path):
    own = load_file(with_pooler / "model.safetensors")["bert.pooler.dense.weight"]
    both = run(recipe(with_pooler, *tasks.values(), head="pooler", epochs=2), tmp_path / "both").path
    shared = heads(both)
    assert np.array_equal(shared[f"{SPECIALTY}.dense.weight"], shared[f"{TREATMENTS}.dense.weight"])
    assert (shared[f"{SPECIALTY}.dense.weight"] != own).any()
    still = run(recipe(both, tasks[TREATMENTS], head="pooler", train_heads=False), tmp_path / "still").path
    for part in ("weight", "bias"):
        assert np.array_equal(heads(still)[f"{TREATMENTS}.dense.{part}"], shared[f"{TREATMENTS}.dense.{part}"])


def test_heads_with_poolers_of_their_own_leave_none_to_start_from(with_pooler, tasks, tmp_path):
    both = tmp_path / "both"
    shutil.copytree(run(recipe(with_pooler, *tasks.values(), head="pooler"), tmp_path / "made").path, both)
    weights = heads(both)
    weights[f"{TREATMENTS}.dense.bias"] = weights[f"{TREATMENTS}.dense.bias"] + 1
    save_file(weights, both / "heads.safetensors")
    with pytest.raises(ArtifactError, match="have different poolers"):
        pooler_of(both)


def test_without_a_pooler_to_start_from_the_other_heads_are_named(model, models, tasks, tmp_path):
    for folder in (model, models["masked"]):
        with pytest.raises(ArtifactError, match="has no pooler") as error:
            plan(recipe(folder, tasks[SPECIALTY], head="pooler"), tmp_path / "x")
        assert 'head = "mlp"' in error.value.fix
        assert 'head = "linear"' in error.value.fix


def test_markers_and_a_pooler_are_refused_together(with_pooler, tasks, tmp_path):
    with pytest.raises(RecipeError, match="the pooler reads the first token") as error:
        plan(recipe(with_pooler, tasks[TREATMENTS], head="pooler", relations="markers"), tmp_path / "x")
    assert '"linear"' in error.value.fix


def test_heads_that_are_not_trained_stay_random_and_the_encoder_learns(model, tasks, tmp_path):
    made = run(recipe(model, tasks[SPECIALTY], head="linear", train_heads=False), tmp_path / "bundle").path
    for name, value in initial(made, model).items():
        assert np.array_equal(heads(made)[name], value), name
    before, after = load_file(model / "model.safetensors"), load_file(made / "model.safetensors")
    assert all((before[name] != after[name]).any() for name in before if name.startswith("layers."))
    assert "heads that keep their random weights" in (made / "README.md").read_text()
