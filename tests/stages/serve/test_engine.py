"""The one path of annotation: the heads that read a document, and attributes by rules, a head, both or none."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from bundles import make_bundle

from osler import api
from osler.artifacts.bundle import Bundle
from osler.core.errors import RecipeError
from osler.stages.serve.config import AnnotateOptions
from osler.stages.serve.engine import AnnotationEngine, _Covers, annotate_together
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
    spans = annotate(bundle, attributes="rules", language="all")
    assert {span.attributes["head"] for span in spans} == {"drugs", "farmacos", "deid"}
    for head, language in (("drugs", "en"), ("farmacos", "es"), ("deid", "")):
        own = [span for span in spans if span.attributes["head"] == head]
        assert [{k: v for k, v in span.attributes.items() if k != "head"} for span in own] == rules(
            NOTE.text, own, language
        )


def test_an_attribute_head_is_for_mentions_of_its_language(bundle):
    names = {"negated": "drugs", "negado": "farmacos"}
    for (_, head), found in told(annotate(bundle, attributes="head", language="all")).items():
        assert all(names[name] == head for name in found)


def test_attribute_heads_do_not_change_what_is_found_and_share_the_pass(bundle, monkeypatch):
    asked = []
    outputs = type(bundle.runner).outputs
    monkeypatch.setattr(
        type(bundle.runner), "outputs", lambda self, i, heads, *rest: asked.append(list(heads)) or outputs(self, i, heads, *rest)
    )  # fmt: skip
    annotate(bundle, attributes="head", language="all")
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


def test_covers_are_found_by_place_as_by_looking_at_all():
    draw = random.Random(0)

    def spans(count: int) -> list[Span]:
        starts = [draw.randrange(40) for _ in range(count)]
        scores = [draw.choice([None, 0.2, 0.5, 0.9]) for _ in starts]
        return [
            Span.at(start, start + draw.randrange(1, 15), "X", score=score)
            for start, score in zip(starts, scores, strict=True)
        ]

    for _ in range(200):
        identifiers = spans(draw.randrange(1, 8))
        for span in spans(8):
            expected = any(
                other.start <= span.start and span.end <= other.end and (other.score or 0.0) >= (span.score or 0.0)
                for other in identifiers
            )
            assert _Covers(identifiers).reaches_over(span) == expected


ENGLISH = "She was given aspirin for the pain and is at home."
SPANISH = "Se le dio aspirina para el dolor y está en casa."
FRENCH = "Le patient est vu par les médecins avec une douleur et il est traité pour des infections dans le service."
HEADS_OF = {
    ENGLISH: {"drugs", "deid"},
    SPANISH: {"farmacos"},
    "Aspirin for pain": {"drugs", "deid"},  # one common word
    "Aspirin 81 mg, warfarin 5 mg": {"drugs", "farmacos", "deid"},  # none
    "Aspirin for pain y masa": {"drugs", "farmacos", "deid"},  # one of each
    FRENCH: {"drugs", "farmacos", "deid"},  # no head is for French
}


def heads_of(document) -> set[str]:
    return {span.attributes["head"] for span in document.spans}


def test_each_document_is_read_by_the_heads_for_its_language_in_the_order_given(bundle):
    engine = AnnotationEngine(bundle, AnnotateOptions())
    documents = [Document(str(number), text) for number, text in enumerate([*HEADS_OF] * 3)]
    found = engine.annotate(documents)
    assert [document.id for document in found] == [document.id for document in documents]
    for document in found:
        assert heads_of(document) == HEADS_OF[document.text]
        assert engine.annotate([Document(document.id, document.text)]) == [document]  # whatever is beside it
    for language, text in (("en", ENGLISH), ("es", SPANISH)):
        [alone] = AnnotationEngine(bundle, AnnotateOptions(language=language)).annotate([Document("1", text)])
        assert alone.spans == found[[*HEADS_OF].index(text)].spans


def test_documents_of_one_language_share_a_pass(bundle, monkeypatch):
    asked = []
    outputs = type(bundle.runner).outputs
    monkeypatch.setattr(
        type(bundle.runner), "outputs", lambda self, i, heads, *rest: asked.append((len(i), list(heads))) or outputs(self, i, heads, *rest)
    )  # fmt: skip
    texts = [ENGLISH, SPANISH, ENGLISH, SPANISH, ENGLISH]
    AnnotationEngine(bundle, AnnotateOptions(attributes="off")).annotate([Document("1", text) for text in texts])
    assert asked == [(3, ["drugs", "deid"]), (2, ["farmacos"])]


@pytest.mark.parametrize("text", HEADS_OF)
def test_all_heads_and_named_heads_are_used_whatever_the_language(bundle, text):
    for options, heads in (
        ({"language": "all"}, {"drugs", "farmacos", "deid"}),
        ({"heads": ("drugs", "farmacos")}, {"drugs", "farmacos"}),
        ({"heads": ("farmacos",)}, {"farmacos"}),
        ({"language": "es"}, {"farmacos"}),
    ):
        engine = AnnotationEngine(bundle, AnnotateOptions(**options))
        [found] = engine.annotate([Document("1", text)])
        assert heads_of(found) == heads
        assert engine.languages([found]) == [None]


def test_the_only_language_of_a_bundle_is_not_chosen(tokenizer_folder, tmp_path):
    engine = AnnotationEngine.load(make_bundle(tmp_path / "b", tokenizer_folder, ("drugs", "deid")), AnnotateOptions())
    assert engine.languages([Document("1", SPANISH), Document("2", ENGLISH)]) == [None, None]


def test_a_head_for_attributes_in_one_language_is_no_mistake_in_the_other(tokenizer_folder, tmp_path):
    folder = make_bundle(tmp_path / "b", tokenizer_folder, ("drugs", "farmacos", "negation"))
    engine = AnnotationEngine.load(folder, AnnotateOptions(attributes="head"), "cpu")
    documents = [Document("1", ENGLISH), Document("2", SPANISH)]
    assert [document.id for document in engine.annotate(documents)] == ["1", "2"]
    with pytest.raises(RecipeError, match="no attribute head for farmacos, only negation"):
        AnnotationEngine.load(folder, AnnotateOptions(attributes="head", language="es"), "cpu").annotate(documents)


def test_only_text_that_no_language_was_chosen_for_can_mismatch(bundle):
    engine = AnnotationEngine(bundle, AnnotateOptions())
    documents = [Document("1", ENGLISH * 3), Document("2", SPANISH * 3)]
    assert engine.language_mismatch(documents) is None
    mismatch = engine.language_mismatch([*documents, Document("3", FRENCH)])
    assert mismatch is not None
    assert mismatch.problem.startswith("the text looks French")
    assert mismatch.choose is None
    assert AnnotationEngine(bundle, AnnotateOptions(language="all")).language_mismatch([Document("3", FRENCH)]) is None


def test_rules_for_attributes_ask_the_text_if_all_heads_are_wanted(bundle, monkeypatch):
    text = "El paciente niega fiebre y la exploración es normal por lo que se va de alta"
    found = Document("1", text, (Span.at(text.index("fiebre"), text.index("fiebre") + 6, "X", id="T1"),))
    monkeypatch.setattr(Bundle, "annotate", lambda *_: [found])
    [span] = annotate(bundle, text, language="all")
    assert span.attributes == {"negated": "yes"}


def test_together_each_record_has_what_it_has_alone(bundle):
    """Other options, other languages, and other records of the same name do not change what is found in a record."""
    options = [{}, {"min_score": 0.6}, {"heads": ("drugs",)}, {"language": "all"}, {"attributes": "off"}]
    engines = [AnnotationEngine.steady(bundle, AnnotateOptions(**chosen)) for chosen in options]
    runner = engines[0].bundle.runner
    engines = [replace(engine, bundle=replace(bundle, runner=runner)) for engine in engines]
    texts = [NOTE.text, "Se dio aspirina para el dolor.", "", "aspirin " * 300, NOTE.text * 3]
    asked = [
        (engine, Document("1", text), *engine.languages([Document("1", text)])) for engine in engines for text in texts
    ]
    together = annotate_together(asked)
    alone = [engine.annotate([record])[0] for engine, record, _ in asked]
    assert together == alone
    assert len({str(found) for found in together}) > len(texts)  # the options matter, or this test says nothing


def test_records_that_the_same_heads_read_share_a_pass(bundle, monkeypatch):
    passes = []
    outputs = type(bundle.runner).outputs
    monkeypatch.setattr(
        type(bundle.runner), "outputs", lambda self, i, *rest: passes.append(len(i)) or outputs(self, i, *rest)
    )
    engines = [AnnotationEngine(bundle, AnnotateOptions(language="all", min_score=score)) for score in (0.0, 0.5)]
    annotate_together([(engine, NOTE, None) for engine in engines * 3])
    assert len(passes) == 1
