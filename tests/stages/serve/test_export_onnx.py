"""ONNX bundles: made from a bundle, compared with it, and used in its place, also where there is no torch."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from encoders import preset_encoder

import osler
from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import BundleHead, BundleSpec
from osler.artifacts.evaluation import Evaluation
from osler.artifacts.task_folder import TaskFolder
from osler.artifacts.tokenizer import Tokenizer
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.config import Recipe
from osler.core.errors import RecipeError
from osler.nn.multihead import MultiHeadModel
from osler.stages.evaluate.config import EvaluateRecipe
from osler.stages.evaluate.run import run as evaluate
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.stages.serve.annotate import stream
from osler.stages.serve.config import AnnotateRecipe, ExportRecipe
from osler.stages.serve.export import plan, run
from osler.stages.serve.export_onnx import _check
from osler.stages.serve.verify import Agreement, DevScore
from osler.tasks.instances.base import HeadOptions
from osler.text.document import Document, TextPair

TASKS = {
    "clinic-entities-en": HeadOptions(tagger="crf"),
    "clinic-phi-en": HeadOptions(),
    "clinic-treatments-en": HeadOptions(relations="markers"),
    "clinic-conditions-en": HeadOptions(),
    "clinic-similarity-en": HeadOptions(),
}
TEXTS = ["Aspirin 81 mg daily for chest pain.", "", "No fever. " * 40, "Seen by Dr. Rowe on 3 May; 70 kg"]


class Made(Recipe):
    """Nothing to choose."""


@pytest.fixture(scope="module")
def tasks(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tasks")
    sizes = {"train": 1, "dev": 4, "test": 4}
    return {name: prepare(PrepareRecipe(task=name, options=sizes), folder / name).path for name in TASKS}


@pytest.fixture(scope="module")
def made(tasks, tokenizer_folder, tmp_path_factory) -> Path:
    """A bundle whose heads are drawn at random, so that they find much."""
    heads = {}
    for name, path in tasks.items():
        card = TaskFolder.open(path).card
        heads[name] = BundleHead(card=card, protocol=card.protocol, options=TASKS[name])
    spec = BundleSpec(max_length=64, overlap=8, heads=heads)

    def build(work: Workspace) -> None:
        model = MultiHeadModel(preset_encoder("tiny", vocab_size=400, pad_token_id=1, seed=0, max_length=64))
        bundle = Bundle.of(model, Tokenizer.open(tokenizer_folder), spec)
        for name, builder in bundle.builders.items():
            model.add_head(name, builder.head, len(builder.outputs), seed=0, labels=builder.outputs)
        draw = torch.Generator().manual_seed(0)  # not the process's own: what ran before must not decide what is found
        for parameter in model.heads.parameters():
            parameter.data = parameter.data.normal_(std=0.5, generator=draw)
        bundle.save(work.path, tokenizer_from=tokenizer_folder, card="# A bundle\n")

    return produce(
        tmp_path_factory.mktemp("made") / "bundle", kind="bundle", recipe=Made(), parents={}, build=build
    ).path


@pytest.fixture(scope="module")
def exported(made, tasks, tmp_path_factory) -> Path:
    recipe = ExportRecipe(bundle=made, to="onnx", tasks=tuple(tasks.values()))
    return run(recipe, tmp_path_factory.mktemp("exported") / "onnx").path


def test_every_head_predicts_what_it_predicts_in_the_bundle(made, exported, tasks):
    ours, theirs = Bundle.load(made), Bundle.load(exported)
    documents = [Document(str(number), text) for number, text in enumerate(TEXTS)]
    found = ours.annotate(documents)
    assert sum(len(document.spans) for document in found) > 20
    for wanted, have in zip(found, theirs.annotate(documents), strict=True):
        assert [span.key for span in have.spans] == [span.key for span in wanted.spans]
        assert have.labels == wanted.labels
        np.testing.assert_allclose([s.score for s in have.spans], [s.score for s in wanted.spans], atol=2e-4)
    pairs = [TextPair("1", TEXTS[0], TEXTS[3]), TextPair("2", TEXTS[2], "")]
    for wanted, have in zip(ours.compare(pairs), theirs.compare(pairs), strict=True):
        assert have.value == pytest.approx(wanted.value, abs=1e-4)
    gold = TaskFolder.open(tasks["clinic-treatments-en"]).read("dev")
    one, other = (
        [relation.key for document in side.predict("clinic-treatments-en", gold) for relation in document.relations]
        for side in (ours, theirs)
    )
    assert one == other
    assert len(one) > 5


def test_the_folder_is_a_bundle_with_its_figures_on_the_card(made, exported, tasks):
    artifact = Artifact.open(exported, kind="bundle")
    artifact.verify()
    assert artifact.counts["heads"] == len(TASKS)
    assert not [path for path in exported.iterdir() if path.suffix == ".safetensors"]
    card = Bundle.read_card(exported)
    assert card.startswith("# A bundle\n\n## Export")
    for name in tasks:
        assert artifact.counts[f"change on {name}"] == 0.0
        assert f"| {name} |" in card
    assert Bundle.digest(exported) != Bundle.digest(made)
    assert run(ExportRecipe(bundle=made, to="onnx", tasks=tuple(tasks.values())), exported).reused


def test_an_export_is_evaluated_like_its_bundle(made, exported, tasks, tmp_path):
    results = []
    for number, bundle in enumerate((made, exported)):
        recipe = EvaluateRecipe(bundle=bundle, task=tasks["clinic-entities-en"], split="test")
        results.append(Evaluation.open(evaluate(recipe, tmp_path / str(number)).path).metrics)
    assert results[0].main == pytest.approx(results[1].main)
    with pytest.raises(RecipeError, match="an ONNX bundle runs on the CPU"):
        evaluate(EvaluateRecipe(bundle=exported, task=tasks["clinic-phi-en"], device="cuda"), tmp_path / "no")


def test_python_loads_an_export(exported):
    nlp = osler.load(exported)
    assert nlp(TEXTS[0]).spans
    with pytest.raises(osler.OslerError, match="no torch weights"):
        _ = nlp.bundle.model
    with pytest.raises(osler.OslerError, match="an ONNX bundle runs on the CPU"):
        osler.load(exported, device="cuda")


def test_annotation_imports_nothing_that_the_base_install_lacks(exported, tmp_path):
    (tmp_path / "note.txt").write_text(TEXTS[0], encoding="utf-8")
    code = f"""
import sys
for name in ("torch", "transformers", "pyarrow", "lxml", "jinja2", "scipy", "onnx", "safetensors"):
    sys.modules[name] = None  # an import of it fails
from osler.cli.main import main
sys.argv = ["osler", "annotate", {str(tmp_path / "note.txt")!r}, "--bundle", {str(exported)!r}]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = io.StringIO()
    stream(AnnotateRecipe(files=(tmp_path / "note.txt",), bundle=exported), found)
    assert json.loads(done.stdout) == json.loads(found.getvalue())
    assert json.loads(done.stdout)["spans"]


def test_an_int8_export_is_scored_and_says_so_on_its_card(made, tasks, tmp_path, capsys):
    asked = (tasks["clinic-phi-en"], tasks["clinic-similarity-en"])
    artifact = run(ExportRecipe(bundle=made, to="onnx-int8", tasks=asked, max_loss=100.0), tmp_path / "light")
    card = Bundle.read_card(artifact.path)
    for name in ("clinic-phi-en", "clinic-similarity-en"):
        [row] = [line for line in card.splitlines() if line.startswith(f"| {name} |")]
        assert float(row.strip("| ").split(" | ")[-1]) == pytest.approx(artifact.counts[f"change on {name}"], abs=0.01)
    assert "ONNX graph in int8" in card
    light = osler.load(artifact.path)
    assert light.bundle.runner.details.precision == "int8"
    assert light(TEXTS[0]).spans
    assert "not scored" not in capsys.readouterr().err
    run(ExportRecipe(bundle=made, to="onnx-int8"), tmp_path / "unscored")
    assert "int8 was not scored. Give task folders" in capsys.readouterr().err.replace("\n", " ")


def test_heads_of_an_export_that_has_its_weights_can_still_go_to_hugging_face(made, exported, tmp_path):
    light = run(ExportRecipe(bundle=made, to="onnx-int8", weights=True), tmp_path / "light").path
    (light / "tokenizer_config.json").write_text('{"pad_token": "<pad>"}')  # stock pipelines need one
    ours = run(ExportRecipe(bundle=light, to="hf", head="clinic-phi-en"), tmp_path / "hf").path
    config = json.loads((ours / "config.json").read_text())
    assert config["architectures"]
    assert (ours / "model.safetensors").is_file()
    for asked in (plan, run):
        with pytest.raises(RecipeError, match="no torch weights"):
            asked(ExportRecipe(bundle=exported, to="hf", head="clinic-phi-en"), tmp_path / "none")


@pytest.mark.e2e
def test_the_base_install_annotates(root, exported, tmp_path):
    python = root / ".venv-base" / "bin" / "python"
    if not python.exists():
        pytest.skip("the base environment is made by `make test`")
    (tmp_path / "note.txt").write_text(TEXTS[0], encoding="utf-8")
    outputs = [
        subprocess.run(
            [side, "-m", "osler", "annotate", "note.txt", "--bundle", str(exported)],
            capture_output=True, text=True, check=True, cwd=tmp_path,
        ).stdout
        for side in (sys.executable, str(python))
    ]  # fmt: skip
    assert outputs[0] == outputs[1]
    assert json.loads(outputs[1])["spans"]


def test_mistakes_are_told_before_anything_is_made(made, exported, tasks, bundle, tmp_path):
    for recipe, problem in (
        (ExportRecipe(bundle=made, to="onnx", head="clinic-phi-en"), "holds every head"),
        (ExportRecipe(bundle=exported, to="onnx"), "is an export already"),
        (
            ExportRecipe(bundle=bundle, to="onnx", tasks=(tasks["clinic-phi-en"],)),
            "no head was trained on clinic-phi-en",
        ),
    ):
        for asked in (plan, run):
            with pytest.raises(RecipeError, match=problem):
                asked(recipe, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    lines = plan(ExportRecipe(bundle=made, to="onnx", tasks=(tasks["clinic-phi-en"],)), tmp_path / "out")
    assert "score both on the dev split of clinic-phi-en; refuse a change of more than 0.5 points" in lines


def test_an_export_that_differs_is_refused(made):
    good, bad = Agreement(1e-6, 3.0, 10, 10), Agreement(0.1, 3.0, 10, 10)
    full, light = ExportRecipe(bundle=made, to="onnx"), ExportRecipe(bundle=made, to="onnx-int8", max_loss=0.3)
    _check(full, good, [])
    for found in (bad, Agreement(1e-6, 3.0, 9, 10)):
        with pytest.raises(RecipeError, match="does not give what the bundle gives"):
            _check(full, found, [])
    _check(light, bad, [DevScore("t", "f1", 5, 80.0, 79.8)])
    with pytest.raises(
        RecipeError, match=r"f1 on the dev split of t changes from 80\.00 to 79\.60, more than 0\.3 points"
    ):
        _check(light, bad, [DevScore("t", "f1", 5, 80.0, 79.6)])
