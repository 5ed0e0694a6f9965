"""A new task for a bundle that exists: the old heads stay as they are, or are rehearsed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from osler.artifacts.bundle import Bundle
from osler.artifacts.runner import run_heads
from osler.artifacts.task_folder import TaskFolder
from osler.core.artifact import Artifact
from osler.core.errors import ArtifactError, RecipeError
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.run import plan, prepare, run

TRAIN = {"lr": 1e-2, "device": "cpu", "log_every": 1, "checkpoint_every": 0, "warmup": 0}


@pytest.fixture(scope="module")
def tasks(make_task):
    return {
        "drugs": make_task("drugs", ["DRUG"], seed=1, train=12),
        "diseases": make_task("diseases", ["DISEASE"], seed=2, train=12),
        "tests": make_task("tests", ["TEST"], seed=3, train=24, dev=6),
    }


def recipe(*tasks, **more) -> FinetuneRecipe:
    values = {"tasks": tasks, "epochs": 4, "batch_size": 4, "dropout": 0.0, "train": TRAIN}
    return FinetuneRecipe.model_validate(values | more)


@pytest.fixture(scope="module")
def old(models, tasks, tmp_path_factory) -> Path:
    given = recipe(tasks["drugs"], tasks["diseases"], model=str(models["plain"]), max_length=64, overlap=8)
    return run(given, tmp_path_factory.mktemp("made") / "old").path


@pytest.fixture(scope="module")
def added(old, tasks, tmp_path_factory) -> Path:
    return run(recipe(tasks["tests"], add_to=str(old), epochs=8), tmp_path_factory.mktemp("made") / "added").path


def outputs(folder: Path, heads: list[str], records) -> dict[str, list[np.ndarray]]:
    bundle = Bundle.load(folder, "cpu")
    instances = bundle.builders[heads[0]].build(records, gold=False).instances
    return run_heads(bundle.model, instances, heads)


def test_old_heads_say_the_same_to_the_last_bit_and_the_new_one_learns(old, added, tasks):
    records = TaskFolder.open(tasks["diseases"]).read("test")
    before, after = (outputs(folder, ["drugs", "diseases"], records) for folder in (old, added))
    for name in before:
        for one, other in zip(before[name], after[name], strict=True):
            assert np.array_equal(one, other)
    assert Bundle.load(old, "cpu").predict("drugs", records) == Bundle.load(added, "cpu").predict("drugs", records)
    encoders = [load_file(folder / "model.safetensors") for folder in (old, added)]
    assert all(np.array_equal(encoders[0][key], encoders[1][key]) for key in encoders[0])
    heads = [load_file(folder / "heads.safetensors") for folder in (old, added)]
    assert all(np.array_equal(heads[0][key], heads[1][key]) for key in heads[0])
    counts = json.loads((added / "manifest.json").read_text())["counts"]
    assert set(heads[1]) - set(heads[0]) == {"tests.classifier.weight", "tests.classifier.bias"}
    assert counts["heads"] == 3
    assert set(counts["dev"]) == {"tests"}
    history = json.loads((added / "history.json").read_text())
    losses = [record["loss/tests"] for record in history if "loss/tests" in record]
    assert losses[-1] < 0.5 * losses[0]


def test_the_new_bundle_holds_every_head_and_its_parents(old, added):
    spec = Bundle.load(added, "cpu").spec
    before = Bundle.load(old, "cpu").spec
    assert list(spec.heads) == ["drugs", "diseases", "tests"]
    assert (spec.max_length, spec.overlap) == (before.max_length, before.overlap) == (64, 8)
    parents = Artifact.open(added).manifest.parents
    assert parents["bundle"] == Artifact.open(old).manifest.digest
    assert set(parents) == {"model", "bundle", "task:tests"}
    assert "whose encoder and heads did not change" in (added / "README.md").read_text()


def test_rehearsal_lets_all_learn_on_and_mixes_the_old_tasks_in(old, tasks, tmp_path):
    given = recipe(tasks["tests"], add_to=str(old), rehearse=(tasks["drugs"], tasks["diseases"]))
    made = run(given, tmp_path / "bundle")
    counts = made.manifest.counts
    assert counts["batches_trained"] == {"drugs": 24, "diseases": 24, "tests": 24}
    assert set(counts["dev"]) == {"drugs", "diseases", "tests"}
    before, after = (load_file(folder / "heads.safetensors") for folder in (old, made.path))
    assert all((before[key] != after[key]).any() for key in before)  # every old head is in the optimiser too
    one, other = (load_file(folder / "model.safetensors") for folder in (old, made.path))
    assert any((one[key] != other[key]).any() for key in one)
    # They go on from what they had learned and are not drawn anew.
    first = json.loads((made.path / "history.json").read_text())[0]
    fresh = json.loads((old / "history.json").read_text())[0]
    assert first["loss/drugs"] < 0.5 * fresh["loss/drugs"]
    assert set(made.manifest.parents) == {"model", "bundle", "task:tests", "rehearsed:drugs", "rehearsed:diseases"}


def test_what_a_task_holds_out_is_removed_from_new_and_rehearsed_training_alike(old, tasks, make_task):
    held = {name: TaskFolder.open(tasks[name]).read("test") for name in tasks}
    train = TaskFolder.open(tasks["tests"]).read("train")
    # The new task trains on a test document of an old one, and tests on a training document of another.
    theirs = TaskFolder.open(tasks["diseases"]).read("train")[0]
    leaky = make_task(
        "leaky", ["TEST"], seed=9, train=[*train, held["drugs"][0].with_(spans=())], test=[theirs.with_(spans=())]
    )
    given = recipe(leaky, add_to=str(old), rehearse=(tasks["drugs"], tasks["diseases"]))
    rehearsed = [TaskFolder.open(path) for path in given.rehearse]
    state = prepare(given, old, [TaskFolder.open(leaky)], rehearsed)
    assert {name: leaks.found for name, leaks in state.leaks.items()} == {"drugs": 0, "diseases": 1, "leaky": 1}


def test_a_joint_head_is_rehearsed_by_its_tasks(models, tasks, tmp_path):
    joint = {"entities": ("drugs", "diseases")}
    given = recipe(tasks["drugs"], tasks["diseases"], model=str(models["plain"]), max_length=64, overlap=8, joint=joint)
    first = run(given, tmp_path / "first")
    more = recipe(tasks["tests"], add_to=str(first.path), rehearse=(tasks["drugs"], tasks["diseases"]), epochs=1)
    made = run(more, tmp_path / "more")
    spec = Bundle.load(made.path, "cpu").spec
    assert list(spec.heads) == ["entities", "tests"]
    assert set(made.manifest.counts["batches_trained"]) == {"drugs", "diseases", "tests"}
    state = prepare(more, first.path, [TaskFolder.open(tasks["tests"])], [TaskFolder.open(p) for p in more.rehearse])
    assert state.instances["drugs"].head == "entities"
    assert state.instances["drugs"].partial is not None


def test_what_would_harm_the_old_heads_is_refused(old, tasks, tmp_path, make_corpus):
    new, both = tasks["tests"], (tasks["drugs"], tasks["diseases"])
    cases = {
        "already has a head for drugs": recipe(tasks["drugs"], add_to=str(old)),
        "the head of diseases would no longer fit": recipe(new, add_to=str(old), rehearse=both[:1]),
        "given twice": recipe(new, add_to=str(old), rehearse=(*both, new)),
        "max_length is 32": recipe(new, add_to=str(old), max_length=32, overlap=8),
        "lora needs an encoder that is trained": recipe(new, add_to=str(old), lora={}),
        "mlm needs an encoder": recipe(new, add_to=str(old), mlm={"corpus": str(make_corpus(["one two"]))}),
        "reinitialise needs an encoder": recipe(new, add_to=str(old), reinitialise=True),
        "freeze needs an encoder": recipe(new, add_to=str(old), freeze="embeddings"),
    }
    for problem, given in cases.items():
        with pytest.raises(RecipeError, match=problem):
            run(given, tmp_path / "x")
    with pytest.raises(ArtifactError, match="nowhere: no such folder"):
        run(recipe(new, add_to="nowhere"), tmp_path / "x")
    with pytest.raises(ValueError, match="cannot both be set"):
        recipe(new, add_to=str(old), model="other")
    with pytest.raises(ValueError, match="rehearse needs add_to"):
        recipe(new, model=str(old), rehearse=both)


def test_only_tasks_of_the_bundle_can_be_rehearsed(old, tasks, make_task, tmp_path):
    other = make_task("other", ["TEST"], seed=11)
    with pytest.raises(RecipeError, match="was not trained on other"):
        run(recipe(tasks["tests"], add_to=str(old), rehearse=(other,)), tmp_path / "x")
    changed = make_task("drugs", ["DRUG", "TEST"], seed=12)
    with pytest.raises(RecipeError, match="kind or labels differ"):
        run(recipe(tasks["tests"], add_to=str(old), rehearse=(changed, tasks["diseases"])), tmp_path / "x")


def test_the_plan_says_what_stays_and_what_learns(old, tasks):
    lines = "\n".join(plan(recipe(tasks["tests"], add_to=str(old)), Path("out")))
    assert f"add to {old}: tests" in lines
    assert "stay as they are" in lines
    assert "the bundle's windows" in lines
    both = plan(recipe(tasks["tests"], add_to=str(old), rehearse=(tasks["drugs"], tasks["diseases"])), Path("out"))
    assert any("rehearse drugs, diseases" in line for line in both)


def test_the_command_adds_a_task(old, tasks, tmp_path):
    from typer.testing import CliRunner

    from osler.cli.main import app

    out = tmp_path / "bundle"
    arguments = ["finetune", str(tasks["tests"]), "--add-to", str(old), "--out", str(out), "--epochs", "1"]
    result = CliRunner().invoke(app, [*arguments, "--set", "train.device=cpu"])
    assert result.exit_code == 0, result.output
    assert list(Bundle.load(out, "cpu").spec.heads) == ["drugs", "diseases", "tests"]
    again = [*arguments[:5], str(tmp_path / "rehearsed"), *arguments[6:]]
    for name in ("drugs", "diseases"):
        again += ["--rehearse", str(tasks[name])]
    result = CliRunner().invoke(app, [*again, "--mixing", "annealed", "--set", "train.device=cpu"])
    assert result.exit_code == 0, result.output
    manifest = Artifact.open(tmp_path / "rehearsed").manifest
    assert manifest.recipe["mixing"]["order"] == "annealed"
    assert "rehearsed:drugs" in manifest.parents
