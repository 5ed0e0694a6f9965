"""Soft labels of a fine-tuned teacher: the loss by hand, learning from them alone, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from encoders import preset_encoder

from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import BundleSpec
from osler.artifacts.runner import run_heads
from osler.artifacts.task_folder import TaskFolder
from osler.core.errors import ArtifactError, RecipeError
from osler.nn.multihead import MultiHeadModel
from osler.nn.packing import pack
from osler.stages.finetune.batches import TaskBatch
from osler.stages.finetune.config import FinetuneRecipe, TaskTeacher
from osler.stages.finetune.model import MultiTask
from osler.stages.finetune.run import run
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare

SIZES = {"train": 4, "dev": 2, "test": 1}
BATCH = pack([[0, 9, 2], [0, 11, 12, 2]], pad_id=1)
TRAIN = {"lr": 2e-3, "device": "cpu", "log_every": 1, "steps": 8, "eval_every": 8, "checkpoint_every": 0}
NAMES = ("clinic-entities-en", "clinic-specialty-en", "clinic-conditions-en", "clinic-similarity-en")


@pytest.fixture(scope="module")
def models(tokenizer_folder, tmp_path_factory) -> dict[str, Path]:
    made = {}
    for name, seed in (("student", 1), ("teacher", 2)):
        made[name] = tmp_path_factory.mktemp(name)
        preset_encoder("tiny", vocab_size=400, pad_token_id=1, max_length=64, dropout=0.0, seed=seed).save(made[name])
        shutil.copyfile(tokenizer_folder / "tokenizer.json", made[name] / "tokenizer.json")
    return made


@pytest.fixture(scope="module")
def tasks(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tasks")
    return {name: prepare(PrepareRecipe(task=name, options=SIZES), folder / name).path for name in NAMES}


def recipe(model: Path, *tasks: Path, **more) -> FinetuneRecipe:
    values = {"model": str(model), "tasks": tasks, "max_length": 64, "overlap": 8, "epochs": 1, "batch_size": 8}
    values |= {"dropout": 0.0, "train": TRAIN}
    return FinetuneRecipe.model_validate(values | more)


@pytest.fixture(scope="module")
def teacher(models, tasks, tmp_path_factory) -> Path:
    """A bundle with a head of each kind."""
    given = recipe(models["teacher"], *tasks.values(), train=TRAIN | {"steps": 24, "lr": 5e-3, "eval_every": 24})
    return run(given, tmp_path_factory.mktemp("made") / "teacher").path


@pytest.fixture
def model() -> MultiHeadModel:
    made = MultiHeadModel(preset_encoder("tiny", vocab_size=60, pad_token_id=1, max_length=32, dropout=0.0, seed=1))
    made.add_head("topic", "classification", 3, seed=1, dropout=0.0)
    return made


def test_the_mix_of_hard_and_soft_by_hand(model):
    soft = torch.tensor([[4.0, 0.0, 0.0], [0.0, 1.0, 2.0]])
    payload = TaskBatch("topic", BATCH, torch.tensor([2, 0]), soft)
    logits = model(BATCH)["topic"].detach()
    hard = -logits.log_softmax(-1)[torch.arange(2), payload.targets].sum()
    theirs = (soft / 2).softmax(-1)
    kl = 4 * (theirs * (theirs.log() - (logits / 2).log_softmax(-1))).sum()
    for weight in (0.25, 1.0):
        output = MultiTask(model, TaskTeacher(bundle="unused", weight=weight, temperature=2.0))(payload)
        assert float(output.loss_sum.detach()) == pytest.approx(float((1 - weight) * hard + weight * kl), rel=1e-5)
        found = {name: float(value) for name, value in output.logs.items()}
        assert found["hard/topic"] == pytest.approx(float(hard) / 2, rel=1e-5)
        assert found["soft/topic"] == pytest.approx(float(kl) / 2, rel=1e-5)
    plain = MultiTask(model)(payload)
    assert float(plain.loss_sum.detach()) == pytest.approx(float(hard), rel=1e-5)
    assert set(plain.logs) == {"loss/topic"}


def test_every_kind_of_head_learns_from_soft_labels_alone(models, tasks, teacher, tmp_path):
    """The student comes nearer to what the teacher says, whatever gold says."""
    values = {"teacher": {"bundle": str(teacher), "weight": 1.0}, "train": TRAIN | {"steps": 32, "eval_every": 32}}
    made = run(recipe(models["student"], *tasks.values(), **values), tmp_path / "soft")
    assert made.manifest.parents["teacher"]
    assert not list(made.path.rglob("checkpoints"))
    history = json.loads((made.path / "history.json").read_text())
    for name in NAMES:
        losses = [record[f"soft/{name}"] for record in history if f"soft/{name}" in record]
        assert sum(losses[-3:]) < 0.7 * sum(losses[:3]), name
        assert all(record[f"loss/{name}"] == record[f"soft/{name}"] for record in history if f"soft/{name}" in record)


def test_gold_has_no_part_where_soft_labels_have_all(model):
    soft = torch.tensor([[4.0, 0.0, 0.0], [0.0, 1.0, 2.0]])
    gradients = []
    for gold in ([2, 0], [1, 2]):
        objective = MultiTask(model, TaskTeacher(bundle="unused", weight=1.0))
        loss = objective(TaskBatch("topic", BATCH, torch.tensor(gold), soft)).loss_sum
        gradients.append(torch.autograd.grad(loss, list(model.parameters())))
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))
    assert any(one.abs().sum() > 0 for one in gradients[0])


def test_half_and_half_differs_from_gold_alone_and_the_teacher_stays_as_it_was(models, tasks, teacher, tmp_path):
    one = tasks["clinic-entities-en"]
    before = {path.name: path.read_bytes() for path in teacher.iterdir() if path.is_file()}
    plain = run(recipe(models["student"], one), tmp_path / "plain")
    mixed = run(recipe(models["student"], one, teacher={"bundle": str(teacher)}), tmp_path / "mixed")
    assert plain.manifest.identity != mixed.manifest.identity
    assert plain.manifest.files["heads.safetensors"] != mixed.manifest.files["heads.safetensors"]
    assert {path.name: path.read_bytes() for path in teacher.iterdir() if path.is_file()} == before
    assert "50% of the loss is on the soft labels" in (mixed.path / "README.md").read_text()


def test_a_sequence_head_may_learn_from_a_teacher_with_another_tokenizer_a_tagger_may_not(
    models, tasks, teacher, tmp_path
):
    other = tmp_path / "teacher"
    shutil.copytree(teacher, other)
    content = json.loads((other / "tokenizer.json").read_text())
    # Without its merges it splits every word into bytes, under numbers that mean other tokens to the student.
    content["model"]["merges"] = []
    vocab = content["model"]["vocab"]
    first, second = list(vocab)[-2:]
    vocab[first], vocab[second] = vocab[second], vocab[first]
    (other / "tokenizer.json").write_text(json.dumps(content))
    pairs = tasks["clinic-similarity-en"]
    made = run(recipe(models["student"], pairs, teacher={"bundle": str(other), "weight": 1.0}), tmp_path / "pairs")
    first_soft = next(
        r for r in json.loads((made.path / "history.json").read_text()) if "soft/clinic-similarity-en" in r
    )
    assert first_soft["soft/clinic-similarity-en"] > 0
    with pytest.raises(RecipeError, match="does not share the student's tokenizer"):
        run(recipe(models["student"], tasks["clinic-entities-en"], teacher={"bundle": str(other)}), tmp_path / "x")


def test_a_teacher_that_does_not_fit_is_named(models, tasks, teacher, tmp_path):
    small = tmp_path / "small"
    run(recipe(models["teacher"], tasks["clinic-specialty-en"]), small)
    with pytest.raises(RecipeError, match="the teacher has no head for clinic-entities-en"):
        run(recipe(models["student"], tasks["clinic-entities-en"], teacher={"bundle": str(small)}), tmp_path / "x")
    with pytest.raises(ArtifactError, match=r"bundle\.json is missing"):
        run(
            recipe(models["student"], tasks["clinic-entities-en"], teacher={"bundle": str(models["teacher"])}),
            tmp_path / "x",
        )

    turned = tmp_path / "turned"
    shutil.copytree(teacher, turned)
    heads = json.loads((turned / "heads.json").read_text())
    heads["heads"]["clinic-specialty-en"]["labels"].reverse()
    (turned / "heads.json").write_text(json.dumps(heads))
    with pytest.raises(ArtifactError, match="outputs of the teacher's head"):
        run(recipe(models["student"], tasks["clinic-specialty-en"], teacher={"bundle": str(turned)}), tmp_path / "x")


def test_chains_neither_teach_nor_learn_by_soft_labels(models, tasks, teacher, tmp_path):
    entities, out = tasks["clinic-entities-en"], tmp_path / "x"
    with pytest.raises(RecipeError, match="teacher is not supported with a CRF head, which clinic-entities-en has"):
        run(recipe(models["student"], entities, tagger="crf", teacher={"bundle": str(teacher)}), out)
    chain = tmp_path / "chain"
    shutil.copytree(teacher, chain)
    spec = BundleSpec.load(chain)
    head = spec.heads["clinic-entities-en"]
    chained = head.model_copy(update={"options": head.options.model_copy(update={"tagger": "crf"})})
    spec.model_copy(update={"heads": {**spec.heads, "clinic-entities-en": chained}}).save(chain)
    with pytest.raises(RecipeError, match="head for clinic-entities-en is a CRF"):
        run(recipe(models["student"], entities, teacher={"bundle": str(chain)}), out)
    assert not out.with_name("x.partial").exists()


def test_soft_labels_are_what_the_teacher_says_of_each_instance(models, tasks, teacher):
    """Batches carry the outputs of their own instances: a row a token, or a row a sequence."""
    from osler.stages.finetune.run import prepare

    chosen = [TaskFolder.open(tasks[name]) for name in NAMES]
    given = recipe(models["student"], *tasks.values(), teacher={"bundle": str(teacher)})
    state = prepare(given, models["student"], chosen)
    batches = state.batches
    loaded = Bundle.load(teacher, "cpu")
    seen = set()
    for ref in {ref.task: ref for ref in batches.order(0)}.values():
        payload = batches.load(ref).payload
        instances = [state.instances[ref.task].instances[index] for index in ref.indices]
        expected = run_heads(loaded.model, instances, [ref.task])[ref.task]
        joined = np.concatenate(expected) if ref.task == "clinic-entities-en" else np.stack(expected)
        assert payload.soft.numpy() == pytest.approx(joined, abs=1e-4)
        seen.add(ref.task)
    assert seen == set(NAMES)
