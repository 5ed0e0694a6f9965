"""The options of heads and training, end to end: each changes what it names, and what it says is in the bundle."""

from __future__ import annotations

import importlib.util
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import BundleSpec
from osler.artifacts.task_folder import TaskFolder
from osler.core.config import validate
from osler.core.errors import MissingExtraError, RecipeError
from osler.nn.encoder import load_encoder
from osler.nn.multihead import MultiHeadModel
from osler.nn.packing import pack
from osler.stages.finetune.batches import balanced, share
from osler.stages.finetune.config import FinetuneRecipe, Lora
from osler.stages.finetune.model import add_adapters, freeze, merge_adapters
from osler.stages.finetune.run import run
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.tasks.instances.base import Instance
from osler.text.document import Document
from osler.train.optim import parameter_groups

SIZES = {"train": 6, "dev": 2, "test": 2}
ENTITIES, TREATMENTS, SPECIALTY = "clinic-entities-en", "clinic-treatments-en", "clinic-specialty-en"
needs_peft = pytest.mark.skipif(importlib.util.find_spec("peft") is None, reason="needs the extra peft")


@pytest.fixture(scope="module")
def tasks(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tasks")
    names = (ENTITIES, TREATMENTS, SPECIALTY)
    return {name: prepare(PrepareRecipe(task=name, options=SIZES), folder / name).path for name in names}


def recipe(model: Path, *tasks: Path, **more) -> FinetuneRecipe:
    values = {"model": str(model), "tasks": tasks, "max_length": 64, "overlap": 8, "epochs": 1, "batch_size": 8}
    train = {"lr": 1e-3, "device": "cpu", "checkpoint_every": 0, "steps": 4, "eval_every": 4} | more.pop("train", {})
    return FinetuneRecipe.model_validate(values | {"train": train} | more)


def weights(folder: Path, name: str = "model.safetensors") -> dict[str, np.ndarray]:
    return load_file(folder / name)


def moved(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> set[str]:
    assert set(before) == set(after)
    return {name for name in before if (before[name] != after[name]).any()}


@pytest.mark.parametrize(("given", "rates"), [({}, [0.0, 0.1]), ({"dropout": 0.25}, [0.25, 0.25])])
def test_heads_have_their_own_dropout_or_that_of_the_recipe(model, tasks, tmp_path, given, rates):
    """The encoder of these tests has none."""
    made = run(recipe(model, tasks[ENTITIES], tasks[SPECIALTY], **given), tmp_path / "bundle")
    heads = json.loads((made.path / "heads.json").read_text())["heads"]
    assert [heads[name]["dropout"] for name in (ENTITIES, SPECIALTY)] == rates


# Heads ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def special(model, tasks, tmp_path_factory) -> Path:
    """A chain for entities, marks for relations."""
    out = tmp_path_factory.mktemp("made") / "special"
    given = recipe(model, tasks[ENTITIES], tasks[TREATMENTS], tagger="crf", relations="markers")
    return run(given, out).path


def test_chain_and_marks_are_learned_and_kept_in_the_bundle(special):
    loaded = Bundle.load(special, "cpu")
    assert {name: spec.kind for name, spec in loaded.model.specs.items()} == {ENTITIES: "crf", TREATMENTS: "markers"}
    assert loaded.builders[ENTITIES].options == loaded.spec.heads[ENTITIES].options
    after = weights(special, "heads.safetensors")
    for name, spec in loaded.model.specs.items():
        fresh = MultiHeadModel(loaded.model.encoder)
        fresh.add_head(name, spec.kind, spec.num_labels, seed=1, labels=spec.labels, dropout=spec.dropout)
        for key, value in fresh.heads[name].state_dict().items():
            assert (after[f"{name}.{key}"] != value.numpy()).any(), f"{name}.{key}"
    assert "CRF tagger" in (special / "README.md").read_text()


def test_predict_and_annotate_decode_a_chain_alike_and_only_to_legal_tags(special, tasks):
    loaded = Bundle.load(special, "cpu")
    gold = TaskFolder.open(tasks[ENTITIES]).read("dev")
    plain = [Document(record.id, record.text) for record in gold]
    with torch.no_grad():  # an untrained chain finds little; steps that begin mentions make it find a lot
        loaded.model.head(ENTITIES).transitions[0, 1:] += 20.0
    predicted = loaded.predict(ENTITIES, plain)
    annotated = loaded.annotate(plain, [ENTITIES])
    found = [[(s.start, s.end, s.label, s.score) for s in document.spans] for document in predicted]
    assert sum(map(len, found)) > 5
    assert found == [[(s.start, s.end, s.label, s.score) for s in document.spans] for document in annotated]
    assert all(0.0 < score <= 1.0 for spans in found for *_, score in spans)
    with torch.no_grad():
        loaded.model.head(ENTITIES).transitions[:, 1:] -= 1000.0
    assert sum(len(document.spans) for document in loaded.predict(ENTITIES, plain)) <= len(plain)  # the first word's


def test_relations_by_marks_depend_on_both_arguments(special, tasks):
    loaded = Bundle.load(special, "cpu")
    builder = loaded.builders[TREATMENTS]
    documents = TaskFolder.open(tasks[TREATMENTS]).read("train")
    instances = builder.build(documents, gold=True).instances
    assert all(len(instance.marks) == 2 for instance in instances)
    assert len(loaded.predict(TREATMENTS, documents)) == len(documents)


def test_decoding_travels_with_the_bundle(model, tasks, tmp_path):
    made = run(recipe(model, tasks[ENTITIES], decoding="greedy"), tmp_path / "greedy")
    # Its earlier name is the same recipe.
    assert run(recipe(model, tasks[ENTITIES], decoding="free"), tmp_path / "greedy").reused
    assert not Bundle.load(made.path, "cpu").builders[ENTITIES].constrained
    spec = json.loads((made.path / "bundle.json").read_text())
    assert spec["heads"][ENTITIES]["options"]["decoding"] == "greedy"
    # A bundle from before there were options reads as it always did.
    del spec["heads"][ENTITIES]["options"]
    (made.path / "bundle.json").write_text(json.dumps(spec))
    assert Bundle.load(made.path, "cpu").builders[ENTITIES].constrained


@pytest.fixture(scope="module")
def plain(model, tasks, tmp_path_factory) -> Path:
    """Two tasks taught without any option."""
    return run(recipe(model, tasks[ENTITIES], tasks[SPECIALTY]), tmp_path_factory.mktemp("made") / "plain").path


# Class weights -------------------------------------------------------------------------------------------------------


def test_balanced_weights_are_inverse_frequencies_with_mean_one():
    ids = np.zeros(3, dtype=np.int32)
    single = [Instance(ids, 0, target) for target in [0, 0, 0, 2]]
    given = balanced(single, 3)
    assert given.weights.tolist() == pytest.approx([4 / 6, 1.0, 2.0])
    assert given.of(torch.tensor([2, 0, -100])).tolist() == pytest.approx([2.0, 4 / 6, 4 / 6])
    tags = [Instance(ids, 0, np.array([-100, 0, 0])), Instance(ids, 0, np.array([0, 1, -100]))]
    assert balanced(tags, 2).weights.tolist() == pytest.approx([4 / 6, 2.0])
    rows = [Instance(ids, 0, np.array(row, dtype=np.float32)) for row in ([1, 0], [0, 0], [0, 0], [0, 1])]
    many = balanced(rows, 2).of(torch.tensor([[1.0, 0.0]]))
    assert many.tolist() == [pytest.approx([2.0, 4 / 6])]
    assert balanced([Instance(ids, 0, 1.5)], 1) is None
    for weighed, targets in ((given, torch.tensor([0, 0, 0, 2])), (balanced(tags, 2), torch.tensor([0, 0, 0, 1]))):
        assert weighed.of(targets).mean().item() == pytest.approx(1.0)


def test_class_weights_change_what_is_learned(model, tasks, tmp_path, plain):
    given = recipe(model, tasks[ENTITIES], tasks[SPECIALTY], class_weights="balanced")
    weighed = run(given, tmp_path / "weighed").path
    assert moved(weights(plain), weights(weighed))
    # Every head differs from its unweighted twin, not one of them alone.
    changed = moved(weights(plain, "heads.safetensors"), weights(weighed, "heads.safetensors"))
    assert {name.split(".")[0] for name in changed} == {ENTITIES, SPECIALTY}


def test_a_chain_and_class_weights_are_refused_together(model, tasks, tmp_path):
    with pytest.raises(RecipeError, match="class_weights is not supported with a CRF head"):
        run(recipe(model, tasks[ENTITIES], tagger="crf", class_weights="balanced"), tmp_path / "x")


# Freezing ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "still"), [("embeddings", {"embeddings"}), (1, {"embeddings", "layers.0"}), ("encoder", None)]
)
def test_frozen_weights_stay_and_the_others_learn(model, tasks, tmp_path, what, still):
    made = run(recipe(model, tasks[SPECIALTY], freeze=what), tmp_path / "frozen").path
    before = weights(model)
    changed = moved(before, weights(made))
    if still is None:
        assert changed == set()
    else:
        assert not any(name.startswith(tuple(f"{part}." for part in still)) for name in changed)
        assert any(name.startswith("layers.1.") for name in changed)
    fresh = MultiHeadModel(load_encoder(made))
    spec = Bundle.load(made, "cpu").model.specs[SPECIALTY]
    fresh.add_head(SPECIALTY, spec.kind, spec.num_labels, seed=1, labels=spec.labels)
    heads = weights(made, "heads.safetensors")
    for key, value in fresh.heads.state_dict().items():
        assert (heads[key] != value.numpy()).any(), key


@pytest.mark.parametrize("what", ["encoders", -1, 1.5, True])
def test_what_cannot_be_frozen_is_told_in_one_sentence(what):
    with pytest.raises(RecipeError) as error:
        validate(FinetuneRecipe, {"model": "m", "tasks": ["t"], "freeze": what}, where="recipe")
    assert error.value.problem == "'freeze': must be 'nothing', 'embeddings', 'encoder' or a number of first layers"


def test_frozen_weights_are_in_no_optimiser_and_a_frozen_encoder_remembers_nothing(model):
    made = MultiHeadModel(load_encoder(model))
    made.add_head("a", "classification", 2, seed=1)
    layers = made.encoder.config.num_hidden_layers
    assert freeze(made.encoder, "encoder") == sum(p.numel() for p in made.encoder.parameters())
    names = {name for group in parameter_groups(made, recipe(model, model).train) for name in group.names}
    assert names == {f"heads.a.{name}" for name, _ in made.head("a").named_parameters()}
    batch = pack([[0, 9, 2]], pad_id=1)
    graphs = []
    made.encoder.register_forward_hook(lambda module, given, output: graphs.append(output.requires_grad))
    assert made(batch)["a"].requires_grad
    made.encoder.requires_grad_(True)
    assert made(batch)["a"].requires_grad
    assert graphs == [False, True]
    with pytest.raises(RecipeError, match=f"has {layers} layers"):
        freeze(made.encoder, layers + 1)


# Layer decay ---------------------------------------------------------------------------------------------------------


def test_layer_decay_slows_the_lower_layers(model, tasks, tmp_path, plain):
    given = recipe(model, tasks[ENTITIES], tasks[SPECIALTY], train={"layer_decay": 0.01})
    before, usual, slow = weights(model), weights(plain), weights(run(given, tmp_path / "slow").path)
    step = {key: np.abs(slow[key] - before[key]).mean() / np.abs(usual[key] - before[key]).mean() for key in before}
    assert step["layers.1.mlp.Wo.weight"] > 0.5
    assert step["layers.0.mlp.Wo.weight"] < 0.05
    assert step["embeddings.tok_embeddings.weight"] < 0.05


# Adapters ------------------------------------------------------------------------------------------------------------


@needs_peft
def test_adapters_alone_learn_and_are_merged_into_an_ordinary_bundle(model, tasks, tmp_path):
    from transformers import AutoModel

    made = run(recipe(model, tasks[SPECIALTY], lora={"rank": 4}), tmp_path / "lora").path
    before, after = weights(model), weights(made)
    changed = moved(before, after)
    assert changed
    assert all(name.endswith(".weight") and name.startswith("layers.") and before[name].ndim == 2 for name in changed)
    ranks = {int(np.linalg.matrix_rank(after[name] - before[name], tol=1e-5)) for name in changed}
    assert max(ranks) <= 4
    AutoModel.from_pretrained(made)
    assert Bundle.load(made, "cpu").predict(SPECIALTY, TaskFolder.open(tasks[SPECIALTY]).read("dev"))


@needs_peft
def test_merging_changes_no_output(model):
    encoder = load_encoder(model)
    batch = pack([[0, 9, 10, 2], [0, 11, 2]], pad_id=1)
    names = list(encoder.state_dict())
    with torch.no_grad():
        plain = encoder(batch)
        learning = add_adapters(encoder, Lora(rank=2), seed=1)
        assert learning == sum(p.numel() for p in encoder.parameters() if p.requires_grad) > 0
        assert torch.equal(encoder(batch), plain)  # adapters begin as zero
        for name, parameter in encoder.named_parameters():
            if "lora_B" in name:
                parameter.add_(0.3)
        adapted = encoder(batch)
        merge_adapters(encoder)
        assert not torch.allclose(adapted, plain, atol=1e-3)
        torch.testing.assert_close(encoder(batch), adapted, atol=1e-4, rtol=1e-4)
    assert list(encoder.state_dict()) == names
    assert all(parameter.requires_grad for parameter in encoder.parameters())


def test_without_peft_the_extra_is_named(model, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "peft", None)
    with pytest.raises(MissingExtraError, match="peft"):
        add_adapters(load_encoder(model), Lora(), seed=1)


def test_adapters_and_freezing_are_refused_together(model, tasks):
    with pytest.raises(ValueError, match="remove freeze"):
        recipe(model, tasks[SPECIALTY], lora={}, freeze="encoder")


@needs_peft
def test_a_run_cut_short_goes_on_to_the_same_bytes(model, tasks, tmp_path, monkeypatch):
    """With everything that adds state of its own: a chain, marks, adapters with dropout, decayed rates."""
    train = {"checkpoint_every": 1, "eval_every": 2, "layer_decay": 0.9}
    lora = {"rank": 2, "dropout": 0.1}
    options = {"tagger": "crf", "relations": "markers", "lora": lora, "train": train}
    given = recipe(model, tasks[ENTITIES], tasks[TREATMENTS], **options)
    whole = run(given, tmp_path / "whole").path

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("osler.stages.finetune.run.dev_scores", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(given, tmp_path / "cut")
    assert list(tmp_path.rglob("cut*/checkpoints/step-*"))
    again = run(given, tmp_path / "cut").path
    for name in ("model.safetensors", "heads.safetensors", "bundle.json", "history.json"):
        assert (again / name).read_bytes() == (whole / name).read_bytes(), name


# Fractions -----------------------------------------------------------------------------------------------------------


def test_shares_are_nested_seeded_and_never_empty():
    documents = [Document(f"d{number}", "x") for number in range(50)]
    drawn = [[d.id for d in share(documents, part, 1)] for part in (0.001, 0.1, 0.3, 0.5, 1.0)]
    assert [len(ids) for ids in drawn] == [1, 5, 15, 25, 50]
    for small, large in itertools.pairwise(drawn):
        assert set(small) < set(large)
    assert drawn[-1] == [d.id for d in documents]
    assert drawn[2] == sorted(drawn[2], key=lambda name: int(name[1:]))
    assert [d.id for d in share(documents, 0.3, 2)] != drawn[2]
    # Not by place: the same documents are drawn whatever order they come in.
    assert {d.id for d in share(documents[::-1], 0.3, 1)} == set(drawn[2])


def test_a_fraction_trains_on_fewer_documents_and_says_so(model, tasks, tmp_path):
    made = run(recipe(model, tasks[ENTITIES], fraction=0.5), tmp_path / "half")
    assert made.manifest.counts["trained_on"] == {ENTITIES: 3}
    assert "50.00% of the training documents" in (made.path / "README.md").read_text()


# Defaults ------------------------------------------------------------------------------------------------------------


def test_good_defaults_stand_and_hold_beside_what_is_set():
    given = FinetuneRecipe.model_validate({"model": "m", "tasks": ["t"], "train": {"lr": 3e-5}})
    assert (given.epochs, given.batch_size, given.train.warmup) == (10, 32, 0.1)
    assert given.train.lr == 3e-5
    assert FinetuneRecipe.model_validate({"model": "m", "tasks": ["t"]}).train.lr is None  # the encoder decides


def test_patience_counts_epochs_where_no_steps_are_given(model, tasks, tmp_path):
    """At a rate that changes nothing no epoch is better than the first: the run ends two epochs behind it."""
    train = {"lr": 1e-12, "patience": 2, "steps": None, "eval_every": None}
    given = recipe(model, tasks[SPECIALTY], epochs=9, batch_size=32, train=train)
    made = run(given, tmp_path / "stopped")
    counts = made.manifest.counts
    an_epoch = sum(counts["batches_an_epoch"].values())
    assert (counts["best_step"], counts["steps"]) == (an_epoch, 3 * an_epoch)


def test_windows_of_a_shorter_encoder_overlap_by_the_same_share(model, make_task, tmp_path):
    task = make_task("short", ["DRUG"], seed=9, train=4)
    given = FinetuneRecipe(model=str(model), tasks=(task,), max_length=512, overlap=64, epochs=1, train={"threads": 1})
    bundle = run(given, tmp_path / "bundle").path
    assert (BundleSpec.load(bundle).max_length, BundleSpec.load(bundle).overlap) == (64, 8)
