"""De-identification over HTTP: the texts of `osler deid`, nothing for a note that cannot be processed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from bundles import make_bundle
from fastapi.testclient import TestClient

from osler.artifacts.deidentified import Deidentified
from osler.stages.serve.config import AnnotateOptions
from osler.stages.serve.deid.config import DeidRecipe
from osler.stages.serve.deid.engine import DeidEngine
from osler.stages.serve.deid.run import run
from osler.stages.serve.engine import AnnotationEngine
from osler.stages.serve.server.app import create_app
from osler.stages.serve.server.settings import ServeRecipe

NOTE = "Mrs. Jane Roe was seen on 03/04/2019 for chest pain. Phone: 617-555-0199. She was given aspirin 💊."
SECRET = "Zyxwvut"


@pytest.fixture(scope="module")
def phi_bundle(tokenizer_folder: Path, tmp_path_factory) -> Path:
    return make_bundle(tmp_path_factory.mktemp("deid") / "bundle", tokenizer_folder, ("drugs", "deid"))


@contextmanager
def serving(bundle: Path, **settings):
    engine = AnnotationEngine.load(bundle, AnnotateOptions(), "cpu")
    with TestClient(create_app(engine, ServeRecipe(bundle=bundle, **settings)), base_url="http://localhost") as client:
        yield client


def offline(tmp_path: Path, notes: list[dict], **options) -> list[str]:
    """The texts that `osler deid` writes."""
    path = tmp_path / "notes.jsonl"
    path.write_text("".join(json.dumps(note) + "\n" for note in notes), encoding="utf-8")
    made = run(DeidRecipe(files=(path,), to="jsonl", **options), tmp_path / "out")
    assert Deidentified.open(made.path).skipped() == []
    [lines] = [p for p in made.path.rglob("*.jsonl") if p.name not in ("offsets.jsonl", "skipped.jsonl")]
    return [json.loads(line)["text"] for line in lines.read_text(encoding="utf-8").splitlines()]


def test_rules_alone_if_no_head_finds_phi(client, tmp_path):
    answer = client.post("/v1/deid", json={"id": "n", "text": NOTE})
    assert answer.status_code == 200
    found = answer.json()
    assert found["text"] == offline(tmp_path, [{"id": "n", "text": NOTE}])[0]
    assert "Roe" not in found["text"]
    assert {passage["by"] for passage in found["replaced"]} == {"rule"}
    for passage in found["replaced"]:
        assert NOTE[passage["start"] : passage["end"]] not in found["text"]
    assert found["offsets"]["old"] == len(NOTE)
    for start, end, new_start, new_end in found["offsets"]["pairs"]:
        assert NOTE[start:end] != found["text"][new_start:new_end]


@pytest.mark.parametrize("options", [{}, {"style": "mask", "dates": "mask"}, {"style": "surrogate", "dates": "shift"}])
def test_the_texts_of_the_command_line(phi_bundle, tmp_path, options):
    key = tmp_path / "key"
    notes = [{"id": "a", "text": NOTE}, {"id": "b", "text": "No fever."}, {"id": "c", "text": NOTE.upper()}]
    expected = offline(tmp_path, notes, bundle=phi_bundle, device="cpu", key_file=key, **options)
    with serving(phi_bundle, deid_key_file=key) as client:
        answer = client.post("/v1/deid", json={"documents": notes, "options": options})
        one = client.post("/v1/deid", json={**notes[0], "options": options})
    assert [note["text"] for note in answer.json()["documents"]] == expected
    assert one.json() == answer.json()["documents"][0]
    assert {passage["by"] for passage in one.json()["replaced"]} - {"rule"} == {"deid"}


def test_notes_of_one_patient_are_consistent(client):
    options = {"style": "surrogate", "dates": "shift"}
    first, second, other = (
        client.post("/v1/deid", json={"text": NOTE, "patient": patient, "options": options}).json()["text"]
        for patient in ("p1", "p1", "p2")
    )
    assert first == second
    assert first != other
    alone = {client.post("/v1/deid", json={"text": NOTE, "options": options}).json()["text"] for _ in range(3)}
    assert len(alone) > 1  # without a name, every note has a patient of its own


def test_a_note_that_cannot_be_processed_gives_no_text(client, monkeypatch):
    def fail(self, note, *_):
        if SECRET in note.text:
            raise ValueError(note.text)
        return real(self, note, *_)

    real = DeidEngine.deidentify
    monkeypatch.setattr(DeidEngine, "deidentify", fail)
    answer = client.post("/v1/deid", json={"text": SECRET})
    assert (answer.status_code, answer.json()["code"]) == (422, "not_deidentified")
    assert SECRET not in answer.text
    answer = client.post("/v1/deid", json={"documents": [{"text": NOTE}, {"text": SECRET, "id": "x"}]})
    good, bad = answer.json()["documents"]
    assert "Roe" not in good["text"]
    assert bad == {"id": "x", "problem": "what was found could not be replaced"}
    assert SECRET not in answer.text


def test_a_language_that_is_not_known_gives_no_text(client):
    words = "Der Patient wurde gestern wegen starker Schmerzen in die Klinik gebracht und sofort untersucht worden "
    answer = client.post("/v1/deid", json={"text": words * 8})
    assert (answer.status_code, answer.json()["code"]) == (422, "not_deidentified")
    assert "Patient" not in answer.text
    assert 'Say which it is with "language"' in answer.json()["message"]
    answer = client.post("/v1/deid", json={"text": words * 8, "options": {"language": "all"}})
    assert answer.status_code == 200


def test_wrong_requests(serve):
    client = serve(max_text=100, max_documents=1)
    for options in ({"style": SECRET}, {"heads": [SECRET]}, {"language": SECRET}, {SECRET: 1}):
        answer = client.post("/v1/deid", json={"text": "a", "options": options})
        assert answer.status_code == 422
        assert SECRET not in answer.text
    assert client.post("/v1/deid", json={"text": "a" * 101}).status_code == 413
    assert client.post("/v1/deid", json={"documents": [{"text": "a"}] * 2}).status_code == 413
    assert client.post("/v1/deid", json={"text": "a\0"}).status_code == 422
    assert client.post("/v1/deid", json={"documents": []}).json() == {"documents": []}


def test_no_path_of_the_server_is_given_away(client, bundle):
    answer = client.post("/v1/deid", json={"text": "a", "options": {"heads": ["similarity"]}})
    assert answer.status_code == 422
    assert str(bundle) not in answer.text


def test_notes_of_several_requests_are_processed_together_and_do_not_mix(phi_bundle):
    texts = [NOTE, "", "Fue visto por la Dra. García el 3 de marzo de 2019.", NOTE * 5, "No fever.", SECRET * 3]
    bodies = [
        {"id": "same", "patient": f"p{number % 2}", "text": text, "options": {"style": style, "dates": "shift"}}
        for number, text in enumerate(texts * 4)
        for style in ("tag", "mask")
    ]
    with serving(phi_bundle) as client:
        alone = [client.post("/v1/deid", json=body).content for body in bodies]
        with ThreadPoolExecutor(16) as pool:
            together = list(pool.map(lambda body: client.post("/v1/deid", json=body).content, bodies))
    assert together == alone
