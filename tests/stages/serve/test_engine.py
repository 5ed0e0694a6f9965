"""Attributes on the one path of annotation: rules, head, both or none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from bundles import make_bundle

from osler import api
from osler.artifacts.bundle import Bundle
from osler.core.errors import RecipeError
from osler.stages.serve.config import AnnotateOptions
from osler.stages.serve.engine import AnnotationEngine
from osler.text.context import attributes as rules
from osler.text.document import Document, Span

NOTE = Document("1", "No aspirin today. Possible warfarin. She takes heparin if needed. Her mother takes insulin.")


@pytest.fixture(scope="module")
def folder(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    heads = ("drugs", "farmacos", "deid", "negation", "negacion")
    return make_bundle(tmp_path_factory.mktemp("engine") / "bundle", tokenizer_folder, heads)


@pytest.fixture(scope="module")
def bundle(folder: Path) -> Bundle:
    """A bundle whose taggers find something everywhere, and whose attribute heads say yes about half of the words."""
    made = Bundle.load(folder, "cpu")
    with torch.no_grad():
        for name in ("drugs", "farmacos", "deid"):
            made.model.head(name).get_submodule("classifier").bias[0] = -3.0  # type: ignore[index]
    return made


def annotate(bundle: Bundle, text: str = NOTE.text, **options) -> list[Span]:
    [found] = AnnotationEngine(bundle, AnnotateOptions(**options)).annotate([Document("1", text)])
    assert isinstance(found, Document)
    return list(found.spans)


def told(spans: list[Span]) -> dict[object, set[str]]:
    return {(span.key, span.attributes["head"]): set(span.attributes) - {"head"} for span in spans}


def test_either_or_both_and_the_union_has_all_that_either_says(bundle):
    none, ruled, learned, both = (told(annotate(bundle, attributes=how)) for how in ("off", "rules", "head", "both"))
    assert set(none) == set(ruled) == set(learned) == set(both)
    assert not any(none.values())
    assert any(ruled.values())
    assert any(learned.values())
    assert {key: ruled[key] | learned[key] for key in both} == both
    assert told(annotate(bundle)) == both  # the default


def test_the_rules_are_those_of_the_language_of_the_head_and_say_nothing_about_identifiers(bundle):
    spans = annotate(bundle, attributes="rules")
    assert {span.attributes["head"] for span in spans} == {"drugs", "farmacos", "deid"}
    for head, language in (("drugs", "en"), ("farmacos", "es"), ("deid", "")):
        own = [span for span in spans if span.attributes["head"] == head]
        assert [{k: v for k, v in span.attributes.items() if k != "head"} for span in own] == rules(
            NOTE.text, own, language
        )


def test_an_attribute_head_is_for_mentions_of_its_language(bundle):
    names = {"negated": "drugs", "negado": "farmacos"}
    for (_, head), found in told(annotate(bundle, attributes="head")).items():
        assert all(names[name] == head for name in found)


def test_attribute_heads_do_not_change_what_is_found_and_share_the_pass(bundle, monkeypatch):
    asked = []
    outputs = type(bundle.runner).outputs
    monkeypatch.setattr(
        type(bundle.runner), "outputs", lambda self, i, heads, *rest: asked.append(list(heads)) or outputs(self, i, heads, *rest)
    )  # fmt: skip
    annotate(bundle, attributes="head")
    assert asked == [["drugs", "farmacos", "deid", "negation", "negacion"]]
    asked.clear()
    annotate(bundle, attributes="rules", heads=("drugs",))
    annotate(bundle, attributes="both", heads=("drugs",))
    assert asked == [["drugs"], ["drugs", "negation"]]


def test_what_cannot_be_done_is_told(bundle):
    with pytest.raises(RecipeError, match="no head here finds any"):
        annotate(bundle, heads=("negation",))
    with pytest.raises(RecipeError, match="no attribute head for deid, only negation"):
        annotate(bundle, heads=("deid",), attributes="head")


def test_mentions_without_a_known_language_are_read_in_that_of_the_text(bundle, monkeypatch):
    text = "El paciente niega fiebre y la exploración es normal por lo que se va de alta"
    found = Document("1", text, (Span.at(text.index("fiebre"), text.index("fiebre") + 6, "X", id="T1"),))
    monkeypatch.setattr(Bundle, "annotate", lambda *_: [found])
    [span] = annotate(bundle, text)
    assert span.attributes == {"negated": "yes"}
    [span] = annotate(bundle, text, language="en")
    assert span.attributes == {}


def test_python_has_the_switch(folder):
    text = "No aspirin. No warfarin. No heparin."
    ruled = api.load(folder, device="cpu", attributes="rules", heads=["drugs"])(text).spans
    plain = api.load(folder, device="cpu", attributes="off", heads=["drugs"])(text).spans
    assert [span.key for span in ruled] == [span.key for span in plain]
    assert not any(set(span.attributes) - {"head"} for span in plain)
    with pytest.raises(RecipeError, match="attributes="):
        api.load(folder, device="cpu", attributes="maybe")


def test_an_entity_within_an_identifier_is_left_out_unless_it_is_surer(bundle):
    engine = AnnotationEngine(bundle, AnnotateOptions(attributes="off"))
    text = "Ana Parkinson"

    def kept(entity: Span, identifier: Span) -> list[str]:
        found = engine._without_identifiers(Document("1", text, spans=(entity, identifier)))
        return [span.attributes["head"] for span in found.spans]

    whole = Span.at(0, 13, "PERSON", id="T1", score=0.9, attributes={"head": "deid"})
    inside = Span.at(4, 13, "DRUG", id="T2", score=0.8, attributes={"head": "drugs"})
    assert kept(inside, whole) == ["deid"]
    surer = Span.at(4, 13, "DRUG", id="T2", score=0.95, attributes={"head": "drugs"})
    assert kept(surer, whole) == ["drugs", "deid"]
    beyond = Span.at(0, 13, "DRUG", id="T2", score=0.8, attributes={"head": "drugs"})
    part = Span.at(0, 3, "PERSON", id="T1", score=0.9, attributes={"head": "deid"})
    assert kept(beyond, part) == ["drugs", "deid"]
