"""FHIR R4: one Bundle of resources per note, as JSON.

A Bundle (type `collection`) contains the note as a DocumentReference, a Patient that the other resources refer to, and one
resource per mention. The options map labels to a Condition or a MedicationStatement; every other label becomes an Observation.
Codes are never invented: the words of a mention are the `text` of its concept, and only FHIR's own status codes are used.

Assertion attributes of a mention are mapped to FHIR's own terms where these exist:

- negated: a Condition is `refuted`, a MedicationStatement `not-taken`;
- possible: a Condition is `provisional`;
- hypothetical: a Condition is `unconfirmed`, a MedicationStatement `intended`;
- historical: a Condition is `inactive`, a MedicationStatement `completed`;
- of someone else: a condition becomes a FamilyMemberHistory; one that is also negated, possible or hypothetical, and every other
  mention, is left out and counted.

An Observation has no such terms, so it gets a modifierExtension, which programs that do not know it must not ignore. Offsets,
label, score, head and all attributes are in an extension of each resource; so are relations and document labels. The url of an
extension is the option `extensions` plus its name.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osler.formats.assertion import Assertion, assertions
from osler.formats.base import OutputFormat
from osler.formats.output import (
    ATTRIBUTES,
    DISCONTINUOUS,
    LABELS,
    RELATIONS,
    SCORES,
    SPANS,
    OutputFolder,
    documents,
    output_file,
)
from osler.text.document import Document, Record, Relation, Span

_CONDITIONS = (
    "condition,diagnosis,disease,diseaseclass,disorder,finding,problem,sign,symptom,symptoms,specificdisease,"
    "diagnostico,enfermedad,hallazgo,sintoma,signo,clinical_impacts,diso,maladie,pathologie,symptome"
)
_MEDICATIONS = "chem,chemical,drug,medication,medicine,treatment_drug,farmaco,medicamento,medicament"
_VERIFICATION: Mapping[Assertion, str] = {
    "negated": "refuted",
    "hypothetical": "unconfirmed",
    "possible": "provisional",
}
_MEDICATION_STATUS: Mapping[Assertion, str] = {
    "negated": "not-taken",
    "hypothetical": "intended",
    "historical": "completed",
}
_SYSTEM = "http://terminology.hl7.org/CodeSystem/condition-"
_PATIENTS = ("patient", "patient_id", "person_id", "subject_id")
_OTHERS = "mentions of someone else that FHIR cannot express"
_Resource = dict[str, Any]


@dataclass(frozen=True)
class Fhir(OutputFormat):
    """One Bundle per note. The options `conditions` and `medications` list labels, ignoring case but not accents."""

    conditions: tuple[str, ...] = tuple(_CONDITIONS.split(","))
    medications: tuple[str, ...] = tuple(_MEDICATIONS.split(","))
    extensions: str = "urn:osler:fhir:"

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        folder = OutputFolder(path, losses)
        holds = {SPANS, DISCONTINUOUS, RELATIONS, ATTRIBUTES, LABELS, SCORES}
        for document in documents(records, losses, holds=holds, meta=_PATIENTS):
            with output_file(path / f"{folder.stem(document.id)}.json") as stream:
                bundle = self.bundle(document, losses)
                stream.write(json.dumps(bundle, ensure_ascii=False, indent=1).encode() + b"\n")

    def bundle(self, document: Document, losses: Counter[str]) -> _Resource:
        """Return a note and its annotations as a Bundle."""
        note, patient = _reference(document, "note"), _reference(document, "patient")
        attachment = {"contentType": "text/plain; charset=utf-8"}
        if document.text:  # FHIR allows no empty values
            attachment["data"] = base64.b64encode(document.text.encode()).decode()
        first: _Resource = {
            "resourceType": "DocumentReference",
            "status": "current",
            "subject": patient,
            "content": [{"attachment": attachment}],
            "identifier": [{"value": document.id}],
        }
        scored = {**dict.fromkeys(document.labels), **document.scores}
        if scored:
            first["extension"] = [
                self._extension("label", label=label, assigned=label in document.labels, score=score)
                for label, score in scored.items()
            ]
        person: _Resource = {"resourceType": "Patient"}
        known = next((document.meta[key] for key in _PATIENTS if document.meta.get(key)), None)
        if known:
            person["identifier"] = [{"value": known}]
        resources: dict[str, _Resource] = {"note": first, "patient": person}
        for number, span in enumerate(document.spans):
            made = self._resource(document, span, note, patient)
            if made is None:
                losses[_OTHERS] += 1
            else:
                resources[_key(span, number)] = made
        places = {span.id: _key(span, number) for number, span in reversed(list(enumerate(document.spans)))}
        for relation in document.relations:
            self._relate(document, relation, places, resources, losses)
        entries = []
        for key, resource in resources.items():
            name = _uuid(document, key)
            entries.append({"fullUrl": f"urn:uuid:{name}", "resource": _with_id(resource, name)})
        return {
            "resourceType": "Bundle",
            "id": _uuid(document, "bundle"),
            "type": "collection",
            "entry": entries,
        }

    def _resource(self, document: Document, span: Span, note: _Resource, patient: _Resource) -> _Resource | None:
        said = assertions(span)
        label = span.label.lower()
        words = {"text": span.text_in(document.text)}
        mention = [self._mention(span, note)]
        if label in self.conditions:
            if "other" in said:
                return _family(words, patient, mention, said)
            return _condition(words, patient, note, mention, said)
        if "other" in said:
            return None
        if label in self.medications:
            status = next((code for key, code in _MEDICATION_STATUS.items() if key in said), "unknown")
            return {
                "resourceType": "MedicationStatement",
                "extension": mention,
                "status": status,
                "medicationCodeableConcept": words,
                "subject": patient,
                "derivedFrom": [note],
            }
        made: _Resource = {"resourceType": "Observation", "extension": mention}
        if said:
            made["modifierExtension"] = [
                {"url": f"{self.extensions}assertion", "valueCode": key} for key in sorted(said)
            ]
        return made | {
            "status": "preliminary",
            "code": {"text": span.label},
            "subject": patient,
            "valueString": words["text"],
            "derivedFrom": [note],
        }

    def _mention(self, span: Span, note: _Resource) -> _Resource:
        made = self._extension("mention", id=span.id, label=span.label, score=span.score)
        made["extension"].insert(0, {"url": "document", "valueReference": note})
        for start, end in span.fragments:
            made["extension"] += [{"url": "start", "valueInteger": start}, {"url": "end", "valueInteger": end}]
        for key, value in span.attributes.items():
            made["extension"].append(
                {
                    "url": "attribute",
                    "extension": [{"url": "name", "valueString": key}, *_text_value("value", value)],
                }
            )
        return made

    def _relate(
        self,
        document: Document,
        relation: Relation,
        places: Mapping[str, str],
        resources: Mapping[str, _Resource],
        losses: Counter[str],
    ) -> None:
        """Add a relation to the resource of its head, as an extension that refers to the resource of its tail."""
        head, tail = (resources.get(places[name]) for name in (relation.head, relation.tail))
        if head is None or tail is None:
            losses[RELATIONS] += 1
            return
        losses[ATTRIBUTES] += len(relation.attributes)
        made = self._extension("relation", id=relation.id, label=relation.label, score=relation.score)
        made["extension"].append({"url": "to", "valueReference": _reference(document, places[relation.tail])})
        head["extension"].append(made)

    def _extension(self, name: str, **values: str | float | bool | None) -> _Resource:
        inside: list[_Resource] = []
        for key, value in values.items():
            if isinstance(value, bool):
                inside.append({"url": key, "valueBoolean": value})
            elif isinstance(value, float):
                inside.append({"url": key, "valueDecimal": value})
            elif value:
                inside += _text_value(key, str(value))
        return {"url": f"{self.extensions}{name}", "extension": inside}


def _text_value(url: str, value: str) -> list[_Resource]:
    """Return a string extension, or nothing for an empty string, which FHIR does not allow."""
    return [{"url": url, "valueString": value}] if value else []


def _condition(
    words: _Resource, patient: _Resource, note: _Resource, mention: list[_Resource], said: frozenset[Assertion]
) -> _Resource:
    made: _Resource = {"resourceType": "Condition", "extension": mention}
    if "historical" in said:
        made["clinicalStatus"] = _status("clinical", "inactive")
    verified = next((code for key, code in _VERIFICATION.items() if key in said), None)
    if verified:
        made["verificationStatus"] = _status("ver-status", verified)
    return made | {"code": words, "subject": patient, "evidence": [{"detail": [note]}]}


def _family(
    words: _Resource, patient: _Resource, mention: list[_Resource], said: frozenset[Assertion]
) -> _Resource | None:
    """Return a condition of someone else, or None: a FamilyMemberHistory cannot state that it is negated or uncertain."""
    if said & {"negated", "possible", "hypothetical"}:
        return None
    return {
        "resourceType": "FamilyMemberHistory",
        "extension": mention,
        "status": "partial",
        "patient": patient,
        "relationship": {"text": "not stated"},
        "condition": [{"code": words}],
    }


def _status(system: str, code: str) -> _Resource:
    return {"coding": [{"system": f"{_SYSTEM}{system}", "code": code}]}


def _key(span: Span, number: int) -> str:
    return f"span {span.id or number}"


def _uuid(document: Document, key: str) -> str:
    """Return an id that is the same in every run."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(["osler", document.id, key])))


def _reference(document: Document, key: str) -> _Resource:
    return {"reference": f"urn:uuid:{_uuid(document, key)}"}


def _with_id(resource: _Resource, name: str) -> _Resource:
    kind = resource.pop("resourceType")
    return {"resourceType": kind, "id": name, **resource}


FORMAT = Fhir("fhir", "FHIR R4: one Bundle of resources per note", (".json",), "folder")
