"""Fine-tuning as a stage: what is trained on, what is kept, what the bundle can do afterwards."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from osler.artifacts.bundle import Bundle
from osler.core.errors import ArtifactError, RecipeError
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.run import run
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.text.document import Document

SIZES = {"train": 6, "dev": 2, "test": 2}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tasks")
    made = {}
    for name in ("clinic-entities-en", "clinic-entities-es", "clinic-treatments-en", "clinic-specialty-en"):
        made[name] = prepare(PrepareRecipe(task=name, options=SIZES), folder / name).path
    return made


def recipe(model: Path, *tasks: Path, **more) -> FinetuneRecipe:
    values = {"model": str(model), "tasks": tasks, "max_length": 64, "overlap": 8, "epochs": 1, "batch_size": 32}
    return FinetuneRecipe.model_validate(values | {"train": {"lr": 1e-3, "device": "cpu"}} | more)


@pytest.fixture(scope="module")
def bundle(model, tasks, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("made") / "bundle"
    return run(recipe(model, *tasks.values()), out).path


def test_round_robin_gives_every_head_as_many_turns_as_the_largest_and_says_so(bundle, tasks):
    counts = json.loads((bundle / "manifest.json").read_text())["counts"]
    turns = counts["batches_an_epoch"]
    assert set(turns) == set(tasks)
    assert len(set(turns.values())) == 1
    assert counts["steps"] == sum(turns.values())
    assert set(counts["dev"]) == set(tasks)


def test_every_head_and_the_encoder_learned(bundle, model):
    """Each head's weights differ from the ones it starts with: all are in the optimiser."""
    started = Bundle.load(bundle, "cpu").model
    heads = load_file(bundle / "heads.safetensors")
    for name, spec in started.specs.items():
        fresh = type(started)(started.encoder)
        fresh.add_head(name, spec.kind, spec.num_labels, seed=1, labels=spec.labels, dropout=spec.dropout)
        for key, value in fresh.heads[name].state_dict().items():
            assert (heads[f"{name}.{key}"] != value.numpy()).any(), f"{name}.{key}"
    before, after = load_file(model / "model.safetensors"), load_file(bundle / "model.safetensors")
    assert any((before[key] != after[key]).any() for key in before)


def test_train_plus_dev_is_a_protocol_and_leaves_nothing_to_choose_by(model, tasks, tmp_path):
    from osler.artifacts.task_folder import TaskFolder

    card = TaskFolder.open(tasks["clinic-entities-en"]).card
    both = card.protocols["strict"].changed(train_on=("train", "dev"))
    values = card.resolved() | {
        "protocols": {"strict": card.protocols["strict"].resolved(), "strict-train+dev": both.resolved()}
    }
    import tomli_w

    (tmp_path / "card.toml").write_text(tomli_w.dumps(values))
    task = prepare(PrepareRecipe(task=str(tmp_path / "card.toml"), options=SIZES), tmp_path / "task").path
    plain = run(recipe(model, task), tmp_path / "plain")
    more = run(recipe(model, task, protocols={card.name: "strict-train+dev"}), tmp_path / "more")
    assert more.manifest.counts["dev"] == {}
    assert "dev_mean" in more.manifest.counts
    assert more.manifest.counts["best_step"] == more.manifest.counts["steps"] >= plain.manifest.counts["steps"]
    spec = json.loads((more.path / "bundle.json").read_text())
    assert spec["heads"][card.name]["protocol"] == "strict-train+dev"


def test_mistakes_in_the_recipe_are_named(model, tasks, tmp_path):
    one = tasks["clinic-entities-en"]
    with pytest.raises(RecipeError, match="given twice"):
        run(recipe(model, one, one), tmp_path / "x")
    with pytest.raises(RecipeError, match="not among the tasks"):
        run(recipe(model, one, protocols={"other": "strict"}), tmp_path / "x")
    with pytest.raises(RecipeError, match="no protocol 'strikt'"):
        run(recipe(model, one, protocols={"clinic-entities-en": "strikt"}), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_missing_split_is_named_with_its_purpose(model, tasks, tmp_path):
    task = tmp_path / "task"
    shutil.copytree(tasks["clinic-entities-en"], task)
    manifest = json.loads((task / "manifest.json").read_text())
    del manifest["files"]["dev.parquet"]
    (task / "manifest.json").write_text(json.dumps(manifest))
    (task / "dev.parquet").unlink()
    with pytest.raises(
        ArtifactError, match=r"no dev split to choose the best epoch by; it has train, test\. Add splits\.dev"
    ):
        run(recipe(model, task), tmp_path / "x")


def test_annotating_uses_the_heads_of_the_language_and_merges_what_two_heads_agree_on(bundle):
    loaded = Bundle.load(str(bundle), "cpu")
    assert Bundle.read_counts(str(bundle))["heads"] == len(loaded.spec.heads)
    assert Bundle.read_history(str(bundle))[0]["loss"] > 0
    assert loaded.spec.document_heads(language="es") == ["clinic-entities-es"]
    with pytest.raises(RecipeError, match="no head for single texts in the language 'fr'"):
        loaded.spec.document_heads(language="fr")
    with pytest.raises(RecipeError, match="Did you mean 'clinic-entities-en'"):
        loaded.spec.document_heads(["clinic-entitis-en"])
    notes = [Document("1", "Aspirin 81 mg daily for chest pain. " * 30), Document("2", "")]
    first, empty = loaded.annotate(notes)
    assert first.text == notes[0].text
    assert len({span.key for span in first.spans}) == len(first.spans)
    assert {span.attributes["head"] for span in first.spans} <= {"clinic-entities-en", "clinic-entities-es"}
    assert [label.split(":")[0] for label in first.labels] == ["clinic-specialty-en"]
    assert list(first.scores) == list(first.labels)
    assert empty.spans == ()
