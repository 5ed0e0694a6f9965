"""FHIR bundles: required elements are there, references resolve, and attributes become statuses."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from osler.formats.base import configure
from osler.formats.registry import get_format
from osler.text.document import Document, Relation, Span

TEXT = "No fever 😀. Possible flu. Aspirin 81 mg. Mother had diabetes. No cancer in the family."
# What R4 requires of each resource, besides resourceType.
REQUIRED = {
    "Bundle": {"type"},
    "Patient": set(),
    "DocumentReference": {"status", "content"},
    "Condition": {"subject"},
    "MedicationStatement": {"status", "medicationCodeableConcept", "subject"},
    "Observation": {"status", "code"},
    "FamilyMemberHistory": {"status", "patient", "relationship"},
}
STATUSES = {
    "DocumentReference": {"current"},
    "MedicationStatement": {"unknown", "not-taken", "intended", "completed"},
    "Observation": {"preliminary"},
    "FamilyMemberHistory": {"partial"},
}


def span(words: str, label: str, name: str, **attributes: str) -> Span:
    start = TEXT.index(words)
    return Span.at(start, start + len(words), label, id=name, score=0.9, attributes={"head": "h", **attributes})


NOTE = Document(
    "note 1",
    TEXT,
    (
        span("fever", "Problem", "T1", negated="yes"),
        span("flu", "DISEASE", "T2", possible="yes"),
        span("Aspirin", "Drug", "T3"),
        span("81 mg", "Dose", "T4", negated="yes"),
        span("diabetes", "Disease", "T5", family="yes", historical="yes"),
        span("cancer", "Disease", "T6", family="yes", negated="yes"),
        span("Mother", "Person", "T7", family="yes"),
    ),
    (Relation("dose-of", "T4", "T3", "R1", 0.8), Relation("of", "T6", "T5", "R2")),
    ("ward:ED",),
    meta={"patient": "p7", "file": "x.txt"},
    scores={"ward:ED": 0.75},
)


def written(folder: Path, note: Document = NOTE, **options: Any) -> tuple[dict[str, Any], dict[str, int]]:
    loss = configure(get_format("fhir"), options).write([note], folder)
    [path] = folder.iterdir()
    return json.loads(path.read_text(encoding="utf-8")), dict(loss.counts)


def resources(bundle: dict[str, Any]) -> list[dict[str, Any]]:
    return [entry["resource"] for entry in bundle["entry"]]


def references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [found for item in value for found in references(item)]
    if not isinstance(value, dict):
        return []
    own = [value["reference"]] if isinstance(value.get("reference"), str) else []
    return own + [found for item in value.values() for found in references(item)]


def empties(value: Any) -> list[Any]:
    """FHIR allows no empty string, list or object."""
    if value in ("", [], {}, None):
        return [value]
    inside = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    return [found for item in inside for found in empties(item)]


def test_the_structure_is_r4(tmp_path):
    bundle, _ = written(tmp_path / "out")
    assert bundle["type"] == "collection"
    for resource in (bundle, *resources(bundle)):
        assert REQUIRED[resource["resourceType"]] <= resource.keys()
        assert resource.get("status") in STATUSES.get(resource["resourceType"], {resource.get("status")})
        assert len(resource["id"]) <= 64
    urls = [entry["fullUrl"] for entry in bundle["entry"]]
    assert len(set(urls)) == len(urls)
    assert [url.removeprefix("urn:uuid:") for url in urls] == [resource["id"] for resource in resources(bundle)]
    assert set(references(bundle)) <= set(urls)
    assert empties(bundle) == []


def test_the_note_is_held_whole_and_offsets_slice_it(tmp_path):
    bundle, _ = written(tmp_path / "out")
    note, patient, *found = resources(bundle)
    text = base64.b64decode(note["content"][0]["attachment"]["data"]).decode()
    assert text == TEXT
    assert patient["identifier"] == [{"value": "p7"}]
    for resource in found:
        values = {item["url"]: item for item in resource["extension"][0]["extension"]}
        shown = json.dumps(resource, ensure_ascii=False)
        mention = text[values["start"]["valueInteger"] : values["end"]["valueInteger"]]
        assert f'"{mention}"' in shown
        assert values["score"]["valueDecimal"] == 0.9
    assert note["extension"][0]["extension"][0] == {"url": "label", "valueString": "ward:ED"}


def test_an_empty_note_has_no_empty_values(tmp_path):
    get_format("fhir").write([Document("empty", "")], tmp_path / "out")
    note = json.loads((tmp_path / "out" / "empty.json").read_text())["entry"][0]["resource"]
    assert note["content"] == [{"attachment": {"contentType": "text/plain; charset=utf-8"}}]


def test_attributes_become_statuses(tmp_path):
    bundle, loss = written(tmp_path / "out")
    _, _, fever, flu, aspirin, dose, diabetes = resources(bundle)
    assert fever["verificationStatus"]["coding"][0]["code"] == "refuted"
    assert flu["verificationStatus"]["coding"][0]["code"] == "provisional"
    assert "clinicalStatus" not in flu
    assert (aspirin["resourceType"], aspirin["status"]) == ("MedicationStatement", "unknown")
    assert dose["resourceType"] == "Observation"
    # A program that does not know what negates an observation must not read it as if it were not negated.
    assert dose["modifierExtension"] == [{"url": "urn:osler:fhir:assertion", "valueCode": "negated"}]
    assert diabetes["resourceType"] == "FamilyMemberHistory"
    assert diabetes["condition"] == [{"code": {"text": "diabetes"}}]
    # The denied cancer and the person are of someone else and cannot be told; a relation to the cancer goes with it.
    assert loss == {"mentions of someone else that FHIR cannot express": 2, "relations": 1, "ids renamed": 1, "meta": 1}


def test_nothing_is_said_where_nothing_is_known(tmp_path):
    plain = NOTE.with_(spans=(span("flu", "Disease", "T2"),), relations=(), meta={})
    bundle, _ = written(tmp_path / "out", plain)
    _, patient, flu = resources(bundle)
    assert flu["code"] == {"text": "flu"}
    assert not {"verificationStatus", "clinicalStatus", "coding"} & flu.keys()
    assert set(patient) == {"resourceType", "id"}
    past = NOTE.with_(spans=(span("flu", "Disease", "T2", historical="yes"),), relations=())
    assert resources(written(tmp_path / "past", past)[0])[2]["clinicalStatus"]["coding"][0]["code"] == "inactive"


@pytest.mark.parametrize(("label", "kind"), [("Dose", "Condition"), ("Problem", "Observation")])
def test_the_map_of_labels_is_an_option(tmp_path, label, kind):
    note = NOTE.with_(spans=(span("flu", label, "T2"),), relations=())
    bundle, _ = written(tmp_path / "out", note, conditions="dose")
    assert resources(bundle)[2]["resourceType"] == kind


def test_relations_refer_to_the_resource_of_their_tail(tmp_path):
    bundle, _ = written(tmp_path / "out")
    by_url = {entry["fullUrl"]: entry["resource"] for entry in bundle["entry"]}
    dose = next(resource for resource in resources(bundle) if resource.get("valueString") == "81 mg")
    values = {item["url"]: item for item in dose["extension"][1]["extension"]}
    assert by_url[values["to"]["valueReference"]["reference"]]["medicationCodeableConcept"] == {"text": "Aspirin"}
    again, _ = written(tmp_path / "again")
    assert again == bundle
