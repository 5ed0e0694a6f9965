"""The stage: protocols are kept apart, errors come on request, and no text leaves but where it was asked for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from encoders import preset_encoder
from safetensors.numpy import load_file, save_file

from osler.artifacts.bundle_spec import BundleSpec
from osler.artifacts.evaluation import Evaluation
from osler.artifacts.task_folder import TaskFolder, read_records
from osler.core.errors import ArtifactError, RecipeError
from osler.stages.evaluate.config import EvaluateRecipe
from osler.stages.evaluate.run import run
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.run import run as finetune
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.tasks.catalogue import load_card

SIZES = {"train": 2, "dev": 1, "test": 3}
PAIRS = {"train": 6, "dev": 6, "test": 12}
NAMES = {
    "clinic-entities-en": SIZES,
    "clinic-treatments-en": SIZES,
    "clinic-specialty-en": SIZES,
    "clinic-conditions-en": SIZES,
    "clinic-similarity-en": PAIRS,
    "clinic-entailment-en": PAIRS,
}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tasks")
    card = load_card("clinic-entities-en")
    strict = card.protocols["strict"]
    protocols = {
        "strict": strict,
        "conlleval": strict.changed(decoding="greedy", repair="conlleval"),
        "strict-train+dev": strict.changed(train_on=("train", "dev")),
    }
    (folder / "card.toml").write_text(card.changed(protocols=protocols).to_toml())
    made = {}
    for name, sizes in NAMES.items():
        source = str(folder / "card.toml") if name == card.name else name
        made[name] = prepare(PrepareRecipe(task=source, options=sizes), folder / name).path
    return made


@pytest.fixture(scope="module")
def bundle(tokenizer_folder, tasks, tmp_path_factory) -> Path:
    model = tmp_path_factory.mktemp("model")
    preset_encoder("tiny", vocab_size=400, pad_token_id=1, max_length=64, seed=1).save(model)
    shutil.copyfile(tokenizer_folder / "tokenizer.json", model / "tokenizer.json")
    values = {"model": str(model), "tasks": list(tasks.values()), "max_length": 64, "overlap": 8, "epochs": 1}
    recipe = FinetuneRecipe.model_validate(values | {"batch_size": 32, "train": {"lr": 1e-3, "device": "cpu"}})
    folder = finetune(recipe, tmp_path_factory.mktemp("made") / "bundle").path
    # So little training says nothing at all; heads with weights drawn at random say much, and err in every way.
    draw = np.random.default_rng(1)
    heads = load_file(folder / "heads.safetensors")
    save_file({k: draw.normal(size=v.shape).astype(v.dtype) for k, v in heads.items()}, folder / "heads.safetensors")
    return folder


def asked(bundle: Path, task: Path, **more) -> EvaluateRecipe:
    return EvaluateRecipe(bundle=bundle, task=task, device="cpu", **more)


@pytest.mark.parametrize("name", NAMES)
def test_predictions_carry_scores_and_errors_agree_with_the_metrics(bundle, tasks, name, tmp_path):
    made = run(asked(bundle, tasks[name], errors=True), tmp_path / "ev").path
    metrics = json.loads((made / "metrics.json").read_text())
    counts = json.loads((made / "errors.json").read_text())
    assert counts["records"] == NAMES[name]["test"]
    if "micro" in metrics["details"] and counts["kind"] != "classification":
        assert counts["classes"].get("correct", 0) == metrics["details"]["micro"]["tp"]
    if counts["kind"] == "classification":
        assert counts["classes"].get("correct", 0) / counts["records"] == pytest.approx(metrics["metrics"]["accuracy"])
    said_something = False
    for record in read_records(made / "predictions.parquet"):
        spans = record.spans if counts["kind"] == "tagging" else ()
        said = [*spans, *getattr(record, "relations", ())]
        assert all(item.score is not None and 0 <= item.score <= 1 for item in said)
        assert all(label in record.scores for label in record.labels)
        said_something |= bool(said or record.labels or record.value is not None)
    assert said_something


def test_errors_asked_for_later_are_made_from_the_predictions_that_are_there(bundle, tasks, tmp_path):
    task = tasks["clinic-entities-en"]
    plain = run(asked(bundle, task), tmp_path / "later")
    assert not (plain.path / "errors.html").exists()
    later = run(asked(bundle, task, errors=True), tmp_path / "later")
    once = run(asked(bundle, task, errors=True), tmp_path / "once")
    assert later.manifest.files == once.manifest.files
    assert later.manifest.digest == once.manifest.digest
    again = run(asked(bundle, task), tmp_path / "later")
    assert again.reused
    assert (again.path / "errors.html").exists()


def test_an_evaluation_without_errors_is_the_same_thing_however_they_would_be_shown(bundle, tasks):
    task = tasks["clinic-entities-en"]
    plain = asked(bundle, task).identity()
    assert asked(bundle, task, error_documents=5).identity() == plain
    assert "errors" not in plain
    shown = asked(bundle, task, errors=True, error_documents=5).identity()
    assert shown != asked(bundle, task, errors=True).identity()


def test_a_protocol_is_read_as_it_says_and_not_only_named(bundle, tasks, tmp_path):
    """Greedy decoding under conlleval finds other mentions than constrained decoding under strict."""
    task = tasks["clinic-entities-en"]
    strict = run(asked(bundle, task), tmp_path / "strict").path
    greedy = run(asked(bundle, task, protocol="conlleval"), tmp_path / "greedy").path
    assert json.loads((greedy / "metrics.json").read_text())["protocol"] == "clinic-entities-en/conlleval@v1"
    found = [[r.spans for r in read_records(folder / "predictions.parquet")] for folder in (strict, greedy)]
    assert found[0] != found[1]


@pytest.mark.parametrize(
    ("decoding", "protocol", "printed"),
    [
        ("greedy", "strict", "strict+greedy@v1"),
        ("free", "strict", "strict+greedy@v1"),  # the name in earlier bundles
        ("constrained", "strict", "strict@v1"),
        ("greedy", "conlleval", "conlleval@v1"),
        ("constrained", "conlleval", "conlleval+constrained@v1"),
    ],
)
def test_a_decoding_that_the_protocol_does_not_have_is_printed_with_it(
    bundle, tasks, tmp_path, decoding, protocol, printed
):
    task = tasks["clinic-entities-en"]
    other = tmp_path / "bundle"
    shutil.copytree(bundle, other)
    spec = BundleSpec.load(other)
    head = spec.heads["clinic-entities-en"]
    options = head.options.changed(decoding=decoding)
    spec.changed(heads={**spec.heads, "clinic-entities-en": head.changed(options=options)}).save(other)
    made = run(asked(other, task, protocol=protocol, errors=True), tmp_path / "ev").path
    metrics = json.loads((made / "metrics.json").read_text())
    assert metrics["protocol"] == f"clinic-entities-en/{printed}"
    assert json.loads((made / "errors.json").read_text())["protocol"] == metrics["protocol"]
    assert metrics["protocol"] in (made / "errors.html").read_text()
    card = TaskFolder.open(task).card
    assert card.protocol_behind(metrics["protocol"]) == card.protocol_named(protocol)
    # An evaluation from when greedy decoding was called free is the same number.
    (made / "metrics.json").write_text(json.dumps(metrics).replace("+greedy@", "+free@"))
    assert Evaluation.open(made).metrics.protocol == f"clinic-entities-en/{printed}"


def test_a_protocol_with_a_plus_in_its_name_is_found_again(tasks):
    card = TaskFolder.open(tasks["clinic-entities-en"]).card
    for read in ("", "greedy"):
        identifier = card.protocol_id("strict-train+dev", read)
        assert card.protocol_behind(identifier).train_on == ("train", "dev")


def test_several_labels_each_have_a_score_also_those_that_are_not_predicted(bundle, tasks, tmp_path):
    task = tasks["clinic-conditions-en"]
    made = run(asked(bundle, task), tmp_path / "ev").path
    labels, left_out = TaskFolder.open(task).card.labels, 0
    for record in read_records(made / "predictions.parquet"):
        scores = {label: record.scores[label] for label in labels}
        assert set(record.labels) == {label for label, value in scores.items() if value > 0.5}
        left_out += len(labels) - len(record.labels)
    assert left_out


def test_mistakes_are_named_before_anything_is_made(bundle, tasks, tmp_path):
    task = tasks["clinic-entities-en"]
    assert BundleSpec.load(bundle).heads["clinic-entities-en"].protocol == "strict"
    with pytest.raises(
        RecipeError, match="trained under 'strict', which differs from 'strict-train\\+dev' in train_on"
    ):
        run(asked(bundle, task, protocol="strict-train+dev"), tmp_path / "x")
    with pytest.raises(RecipeError, match="Did you mean 'conlleval'"):
        run(asked(bundle, task, protocol="conleval"), tmp_path / "x")
    with pytest.raises(RecipeError, match="Did you mean 'clinic-entities-en'"):
        run(asked(bundle, task, head="clinic-entitis-en"), tmp_path / "x")
    with pytest.raises(RecipeError, match="Choose another --head"):
        run(asked(bundle, task, head="clinic-similarity-en"), tmp_path / "x")
    with pytest.raises(ArtifactError, match="Use one of: train, dev, test"):
        run(asked(bundle, task, split="devv"), tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_the_command_takes_several_tasks_and_shows_no_text(bundle, tasks, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from osler.cli.main import app

    monkeypatch.chdir(tmp_path)
    some = [tasks["clinic-entities-en"], tasks["clinic-similarity-en"]]
    options = [part for task in some for part in ("--task", str(task))]
    done = CliRunner().invoke(app, ["evaluate", str(bundle), *options, "--errors", "--documents", "1", "-o", "ev"])
    assert done.exit_code == 0, done.output
    assert done.stdout.split() == ["ev/clinic-entities-en", "ev/clinic-similarity-en"]
    assert "contains document text" in done.output
    for record in TaskFolder.open(some[0]).read("test"):
        for line in record.text.splitlines():
            assert len(line) < 12 or line not in done.output
    page = (tmp_path / "ev" / "clinic-entities-en" / "errors.html").read_text(encoding="utf-8")
    assert page.count('class="note"') == 1
    twice = CliRunner().invoke(
        app, ["evaluate", str(bundle), "--task", str(some[0]), "--task", str(some[0]), "-o", "t"]
    )
    assert isinstance(twice.exception, RecipeError)
