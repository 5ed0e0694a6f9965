"""Routes of the page, and the whole loop: annotate, correct, make a task, fine-tune on it."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from osler.artifacts.bundle_spec import BundleSpec
from osler.cli.main import app as command
from osler.formats.registry import get_format
from osler.report.colours import palette_css
from osler.stages.serve.corrections import CorrectionLog

TEXT = "💊 He took aspirin 81 mg."
STATIC = Path(__file__).parents[4] / "src" / "osler" / "stages" / "serve" / "page" / "static"


@pytest.fixture
def client(app_for: Callable[..., Any], tmp_path: Path) -> TestClient:
    return TestClient(app_for(corrections=tmp_path / "corrections"), "http://127.0.0.1")


def test_the_page_needs_nothing_from_elsewhere_and_runs_no_inline_code(client: TestClient) -> None:
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"https?://|\son\w+=|\sstyle=|<style|<script(?! type=\"module\" src=)", answer.text)
    for name in re.findall(r'(?:src|href)="(static/[^"]+)"', answer.text):
        assert client.get(f"/{name}").status_code == 200
    for path in STATIC.iterdir():
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", source)
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", source), path.name
    assert client.get("/static/../routes.py").status_code == 404


def test_the_page_has_the_colours_of_the_reports(client: TestClient) -> None:
    palette = client.get("/static/palette.css")
    assert (palette.headers["content-type"], palette.text) == ("text/css; charset=utf-8", palette_css())
    own = client.get("/static/app.css").text
    assert "prefers-color-scheme" not in own
    used = set(re.findall(r"var\(--([\w-]+)", own))
    assert used <= set(re.findall(r"--([\w-]+):", palette.text + own))


def test_a_language_that_no_head_has_is_not_chosen(client: TestClient) -> None:
    assert client.post("/v1/language", json={"text": "She was given the drug."}).json() == {"language": "en"}
    assert client.post(
        "/v1/language", json={"text": "Elle a été traitée par le médecin pendant des jours."}
    ).json() == {"language": None}
    assert client.post("/v1/language", json={"text": 3}).status_code == 422


def test_the_page_is_public_and_what_it_asks_for_is_not(app_for: Callable[..., Any]) -> None:
    guarded = TestClient(app_for(("a-long-enough-token",)), "http://127.0.0.1")
    assert guarded.get("/").status_code == guarded.get("/static/app.js").status_code == 200
    assert guarded.get("/v1/page").status_code == guarded.post("/v1/convert", json={}).status_code == 401


def test_the_settings_name_heads_colours_and_formats(client: TestClient, app_for: Callable[..., Any]) -> None:
    found = client.get("/v1/page").json()
    assert [head["name"] for head in found["heads"]] == ["drugs", "farmacos"]
    assert found["colours"].keys() == {"DRUG", "DOSE", "FARMACO"}
    assert len(set(found["colours"].values())) == 3
    assert (found["corrections"], found["deid"]) == (True, ["mask", "tag", "surrogate"])
    assert {"jsonl", "brat", "label_studio"} <= {item["name"] for item in found["formats"]}
    plain = TestClient(app_for(), "http://127.0.0.1")
    assert plain.get("/v1/page").json()["corrections"] is False
    assert plain.post("/v1/corrections", json={}).status_code == 404


def test_every_offered_format_is_written(client: TestClient, tmp_path: Path) -> None:
    note = client.post("/v1/annotate", json={"id": "n", "text": TEXT}).json()
    for item in client.get("/v1/page").json()["formats"]:
        answer = client.post("/v1/convert", params={"to": item["name"]}, json=note)
        assert answer.status_code == 200, answer.text
        again = client.post("/v1/convert", params={"to": item["name"]}, json=note)
        assert answer.content == again.content
        path = tmp_path / f"{item['name']}{item['suffix']}"
        path.write_bytes(answer.content)
        if item["name"] in ("jsonl", "bioc", "brat", "label_studio"):
            (read,) = get_format(item["name"]).read(path)
            assert [span.text_in(TEXT) for span in read.spans] == ["aspirin 81 mg", "aspirin", "81 mg"]
    packed = client.post("/v1/convert", params={"to": "brat"}, json=note).content
    assert {"annotation.conf", "n.ann", "n.txt"} == set(zipfile.ZipFile(io.BytesIO(packed)).namelist())


SPAN = {"start": 10, "end": 17, "label": "DRUG", "attributes": {"head": "drugs"}}


def corrected(text: str = TEXT, **more: Any) -> dict[str, Any]:
    return {"annotator": "ana", "heads": ["drugs"], "document": {"text": text, "spans": [SPAN]}, **more}


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"annotator": "../x"}, 422, "the name of an annotator"),
        ({"heads": []}, 422, "heads"),
        ({"heads": ["nothing"]}, 422, "no head 'nothing'"),
        ({"model": "of last week"}, 409, "Another model"),
        ({"document": {"text": "secret", "spans": [SPAN]}}, 422, "a span lies outside the text"),
        ({"document": {"text": "secret\0"}}, 422, "NUL"),
        ({"document": {"text": " "}}, 422, "the text is empty"),
        ({"document": {"text": TEXT, "spans": [SPAN | {"label": "secret"}]}}, 422, "does not have this label"),
        ({"document": {"text": TEXT, "spans": [SPAN | {"end": 10}]}}, 422, "empty, negative"),
        ({"document": {"text": TEXT, "relations": [{"head": "T1", "tail": "T2", "label": "x"}]}}, 422, "no span"),
        ({"document": {"text": TEXT, "secret": 1}}, 422, "body.document.?"),
        ({"changes": {"accepted": -1}}, 422, "body.changes.accepted"),
    ],
)
def test_bad_corrections_are_refused_without_repeating_them(
    client: TestClient, body: dict[str, Any], status: int, said: str, tmp_path: Path
) -> None:
    answer = client.post("/v1/corrections", json=corrected() | body)
    assert answer.status_code == status, answer.text
    assert said in answer.text
    assert "secret" not in answer.text
    assert CorrectionLog(tmp_path / "corrections").annotators() == []


def test_a_text_that_is_too_long_is_refused(app_for: Callable[..., Any], tmp_path: Path) -> None:
    small = TestClient(app_for(corrections=tmp_path / "c", max_text=10), "http://127.0.0.1")
    assert small.post("/v1/corrections", json=corrected()).status_code == 413
    assert small.post("/v1/convert", json={"id": "n", "text": TEXT}).status_code == 413


@pytest.mark.timeout(600)
def test_from_the_page_to_a_new_model(client: TestClient, bundle: Path, tmp_path: Path) -> None:
    """The notes are annotated by the service, corrected, and a head is trained on the corrections with the bundle's encoder."""
    digest = client.get("/v1/page").json()["model"]
    for number in range(12):
        note = client.post("/v1/annotate", json={"text": f"{TEXT} Visit {number}, aspirin."}).json()
        spans = [span for span in note["spans"] if span["attributes"]["head"] == "drugs"]
        body = {"annotator": "ana", "model": digest, "heads": ["drugs"], "changes": {"accepted": 3}}
        answer = client.post("/v1/corrections", json=body | {"document": {"text": note["text"], "spans": spans}})
        assert answer.json() == {"annotator": "ana", "notes": number + 1, "entities": 3 * (number + 1), "changes": 0}

    def osler(*arguments: object) -> None:
        done = CliRunner().invoke(command, [str(argument) for argument in arguments])
        assert done.exit_code == 0, done.output

    osler("corrections", tmp_path / "corrections", "--out", tmp_path / "tasks")
    task = tmp_path / "tasks" / "drugs-ana"
    settings = [word for value in ("max_length=64", "overlap=8", "train.device=cpu") for word in ("--set", value)]
    osler("finetune", task, "--model", bundle, "--epochs", 2, *settings, "--out", tmp_path / "new")
    spec = BundleSpec.load(tmp_path / "new")
    assert spec.heads["drugs-ana"].card.labels == ("DRUG", "DOSE")
    manifest = json.loads((tmp_path / "new" / "manifest.json").read_text())
    assert manifest["kind"] == "bundle"
