"""The shipped model: found without a name, used without torch, and loaded for training."""

from __future__ import annotations

import json
import re
import subprocess
from importlib.metadata import distribution
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import osler
from osler.core.files import sha256
from osler.core.models import find_model
from osler.stages.serve.annotate import plan as annotate_plan
from osler.stages.serve.config import AnnotateOptions, AnnotateRecipe
from osler.stages.serve.engine import AnnotationEngine
from osler.stages.serve.server.app import create_app
from osler.stages.serve.server.run import plan as serve_plan
from osler.stages.serve.server.settings import ServeRecipe

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "models/osler-compact/src/osler_compact/bundle"
NOTE = "She denies chest pain. Ibuprofen 600 mg was stopped; her mother had breast cancer.\n"


def _found(document: dict) -> dict[tuple[str, str], dict]:
    return {(span["label"], document["text"][span["start"] : span["end"]]): span for span in document["spans"]}


def test_the_package_names_its_folder():
    assert find_model("osler-compact") == FOLDER


def test_the_service_and_the_commands_call_it_by_name_and_version(tmp_path):
    version = distribution("osler-compact").version
    recipe = ServeRecipe(bundle="osler-compact", port=0)
    client = TestClient(
        create_app(AnnotationEngine.load(recipe.bundle, AnnotateOptions()), recipe, ()), "http://127.0.0.1"
    )
    card = client.get("/v1/card").json()
    assert (card["name"], card["model_version"]) == ("osler-compact", version)
    assert client.get("/v1/page").json()["bundle"] == f"osler-compact {version}"
    for text, language in (("She was given the drug.", "en"), ("Se le dio el fármaco.", "es"), ("4821736", None)):
        assert client.post("/v1/language", json={"text": text}).json() == {"language": language}
    assert serve_plan(recipe)[0].startswith(f"serve osler-compact {version} on ")
    note = tmp_path / "note.txt"
    note.write_text(NOTE, encoding="utf-8")
    assert annotate_plan(AnnotateRecipe(files=(note,), bundle=FOLDER), None)[0].endswith(
        f" with osler-compact {version}"
    )


def test_the_files_are_those_of_the_card_and_small():
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    hashes = dict(re.findall(r"\| `([\w.]+)` \| [\d.]+ MB \| `([0-9a-f]{64})` \|", card))
    assert {"model.onnx", "model.safetensors", "heads.safetensors", "scales.npz", "tokenizer.json"} <= hashes.keys()
    assert {name: sha256(FOLDER / name) for name in hashes} == hashes
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 64e6
    assert "not a medical device" in card


@pytest.mark.e2e
def test_the_base_install_annotates_with_it(tmp_path):
    command = ROOT / ".venv-base/bin/osler"
    if not command.exists():
        pytest.skip("make pytest installs the base environment")
    note = tmp_path / "note.txt"
    note.write_text(NOTE, encoding="utf-8")
    done = subprocess.run([command, "annotate", note], capture_output=True, text=True, check=True)
    found = _found(json.loads(done.stdout))
    assert "documents read: 1 as English" in done.stderr
    assert ("Chemical", "Ibuprofen") in found
    assert found["Disease", "chest pain"]["attributes"]["negated"] == "yes"
    assert found["Disease", "breast cancer"]["attributes"]["someone_else"] == "yes"


def test_python_needs_no_name_and_gives_the_same():
    document = osler.load()(NOTE)
    again = osler.load("osler-compact", language="en")(NOTE)
    assert document.spans == again.spans
    assert {"Chemical", "Disease"} <= {span.label for span in document.spans}
    spanish = osler.load()("Paciente de 64 años con carcinoma ductal infiltrante de mama, tratada con tamoxifeno.")
    assert {"cantemist", "pharmaconer"} <= {span.attributes["head"] for span in spanish.spans}
    assert not {span.label for span in spanish.spans} & {"Chemical", "Disease"}


def test_the_weights_give_what_the_graph_gives():
    """The graph has integers, the weights are bfloat16: the surest mentions must agree."""
    from osler.artifacts.bundle import Bundle
    from osler.artifacts.bundle_spec import BundleSpec
    from osler.artifacts.runner import TorchRunner
    from osler.artifacts.tokenizer import Tokenizer
    from osler.nn.folders import resolve
    from osler.nn.multihead import MultiHeadModel
    from osler.text.document import Document

    folder = resolve("osler-compact")
    graph = Bundle.load(folder)
    weights = Bundle(
        TorchRunner(MultiHeadModel.load(folder)), Tokenizer.open(folder), BundleSpec.load(folder), graph.calibration
    )
    heads = ["bc5cdr-chem", "bc5cdr-disease"]
    text = NOTE + "Her type 2 diabetes was treated with metformin; ceftriaxone was started for pneumonia.\n"
    ours, theirs = [b.annotate([Document("1", text)], heads)[0] for b in (graph, weights)]
    sure = [{span.key for span in document.spans if (span.score or 0) > 0.6} for document in (ours, theirs)]
    assert sure[0] == sure[1]
    assert len(sure[0]) >= 3


FORM = """Datos del paciente.
Nombre: Lucía.
Apellidos: Vega Soler.
NHC: 3318207.
Médico: Andrés Molina Prat NºCol: 28 28 40517.

"""
TREATMENT = "Mujer de 62 años tratada con tamoxifeno y paracetamol. Se añade furosemida 40 mg al alta.\n"


def test_a_form_at_the_top_does_not_hide_the_drugs():
    """Version 0.1 found a quarter of the drugs beside a form: only another head's documents had forms."""
    nlp = osler.load(heads=["pharmaconer"])
    found = [
        {document.text[span.start : span.end] for span in document.spans if (span.score or 0) > 0.5}
        for document in nlp.pipe([TREATMENT, FORM + TREATMENT])
    ]
    assert found == [{"tamoxifeno", "paracetamol", "furosemida"}] * 2


def test_a_sentence_by_itself_has_no_mentions_that_are_none():
    """Version 0.1 was trained on documents alone, and took "Ibuprofen" for a species here."""
    [document] = osler.load().pipe(["No fever. Ibuprofen 400 mg was given."])
    assert {document.text[span.start : span.end] for span in document.spans} == {"fever", "Ibuprofen"}
