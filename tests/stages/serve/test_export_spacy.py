"""A bundle as a spaCy pipeline: what osler finds, in spaCy's own places, exact to the character."""

from __future__ import annotations

import json
import pickle
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import spacy
from bundles import HEADS, make_bundle
from spacy.tokens import Doc, DocBin

from osler.artifacts.bundle import Bundle
from osler.core.errors import RecipeError
from osler.stages.serve import spacy_component
from osler.stages.serve.config import AnnotateOptions, ExportRecipe
from osler.stages.serve.engine import AnnotationEngine
from osler.stages.serve.export import plan, run
from osler.text.document import Document, Relation, Span

pytestmark = pytest.mark.filterwarnings("ignore:the text looks English")  # one head is Spanish

TEXTS = [
    "Aspirin 81mg; metformin (500 mg).\nCafe\u0301 \U0001f469\u200d⚕️ \u202e β-blocker",
    "",
    "  \n leading space, trailing space \t\n",
    "He takes aspirin 81 mg. " * 20,
]


@pytest.fixture(scope="module")
def folder(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(ExportRecipe(bundle=bundle, to="spacy"), tmp_path_factory.mktemp("spacy") / "nlp").path


def annotated(bundle: Path, heads: list[str]) -> list[Document]:
    return Bundle.load(bundle, "cpu").annotate([Document(str(n), text) for n, text in enumerate(TEXTS)], heads)


def test_spacy_opens_the_folder_and_finds_what_osler_finds(bundle, folder):
    assert plan(ExportRecipe(bundle=bundle, to="spacy"), folder)[0].startswith("export drugs, farmacos of")
    nlp = spacy.load(folder)
    assert nlp.pipe_names == ["osler"]
    records = [Document(str(number), text) for number, text in enumerate(TEXTS)]
    expected = AnnotationEngine.load(bundle, AnnotateOptions(), "cpu").annotate(records)
    assert [len({span.attributes["head"] for span in document.spans}) for document in expected] == [2, 0, 2, 1]
    assert sum(len(document.spans) for document in expected) > 30
    for docs in (list(nlp.pipe(TEXTS, batch_size=3)), [nlp(text) for text in TEXTS]):
        for doc, document in zip(docs, expected, strict=True):
            assert doc.text == document.text
            group = doc.spans["osler"]
            assert [span.label_ for span in group] == [span.label for span in document.spans]
            for found, wanted in zip(group, document.spans, strict=True):
                assert found._.osler == wanted.to_dict()
                assert (found._.score, found._.attributes) == (wanted.score, wanted.attributes)
                assert found.start_char <= wanted.start < wanted.end <= found.end_char


def test_entities_do_not_overlap_and_the_best_scored_stays(bundle, folder):
    docs = list(spacy.load(folder).pipe(TEXTS))
    assert any(len(doc.ents) < len(doc.spans["osler"]) for doc in docs)
    for doc in docs:
        tokens = [token for span in doc.ents for token in range(span.start, span.end)]
        assert len(tokens) == len(set(tokens))
        for span in doc.spans["osler"]:
            rivals = [ent for ent in doc.ents if ent.start < span.end and span.start < ent.end]
            assert max(ent._.score for ent in rivals) >= span._.score


def test_a_mention_inside_a_spacy_token_keeps_its_characters():
    nlp = spacy.blank("en")
    doc = nlp("Took 81mg-tablets today")
    assert [token.text for token in doc][1] == "81mg"
    found = Document(
        "1",
        doc.text,
        (
            Span.at(5, 7, "DOSE", id="T1", score=0.5, attributes={"head": "x"}),
            Span.at(7, 9, "DOSE", id="T2", score=0.9),
            Span(((0, 4), (10, 17)), "EVENT", "T3", 0.2),
        ),
        (Relation("of", "T1", "T2", "R1", 0.7),),
        labels=("x:urgent",),
        scores={"x:urgent": 0.8, "x:routine": 0.1},
    )
    spacy_component._add(doc, found)
    first, second, third = doc.spans["osler"]
    assert (first.text, second.text) == ("81mg", "81mg")
    assert (first._.osler["start"], first._.osler["end"]) == (5, 7)
    assert (second._.osler["start"], second._.osler["end"]) == (7, 9)
    assert third._.osler["fragments"] == [[0, 4], [10, 17]]
    assert [(ent.text, ent._.score) for ent in doc.ents] == [("81mg", 0.9)]
    [relation] = doc._.relations
    assert (relation["label"], relation["head"].id_, relation["tail"]._.osler["start"], relation["score"]) == (
        "of",
        "T1",
        7,
        0.7,
    )
    assert doc.cats == {"x:urgent": 0.8, "x:routine": 0.1}
    assert first._.attributes == {"head": "x"}
    assert doc[0:1]._.osler is None
    assert doc[0:1]._.attributes == {}
    # Everything is plain data, so that documents can be stored.
    stored = DocBin(store_user_data=True)
    stored.add(doc)
    [again] = DocBin(store_user_data=True).from_bytes(stored.to_bytes()).get_docs(nlp.vocab)
    assert json.dumps(again._.osler) == json.dumps(doc._.osler)
    assert again.spans["osler"][1]._.osler["start"] == 7


def test_entities_of_other_components_stay_where_there_is_room():
    doc = Doc(spacy.blank("en").vocab, words=["Mary", "took", "aspirin"])
    doc.set_ents([doc.char_span(0, 4, label="PERSON"), doc.char_span(10, 17, label="ORG")])
    spacy_component._add(doc, Document("1", doc.text, (Span.at(10, 17, "DRUG", id="T1", score=0.4),)))
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("Mary", "PERSON"), ("aspirin", "DRUG")]


def test_the_component_is_added_to_any_pipeline_and_saved_with_its_bundle(bundle, tmp_path):
    nlp = spacy.blank("es")
    nlp.add_pipe("osler", config={"bundle": str(bundle), "heads": ["drugs"], "min_score": 0.0, "device": "cpu"})
    doc = nlp(TEXTS[0])
    [expected] = annotated(bundle, ["drugs"])[:1]
    assert doc._.osler["spans"] == expected.to_dict()["spans"]
    nlp.to_disk(tmp_path / "saved")
    nlp.to_disk(tmp_path / "saved")
    again = spacy.load(tmp_path / "saved")
    assert (tmp_path / "saved" / "osler" / "bundle" / "bundle.json").is_file()
    assert again.get_pipe("osler").engine.bundle.spec.heads.keys() == HEADS.keys()
    assert again(TEXTS[0])._.osler == doc._.osler
    again.to_disk(tmp_path / "saved")  # onto itself
    assert spacy.load(tmp_path / "saved")(TEXTS[0])._.osler == doc._.osler
    assert pickle.loads(pickle.dumps(nlp.get_pipe("osler")))(nlp.make_doc(TEXTS[0]))._.osler == doc._.osler


def test_every_option_of_annotation_is_one_of_the_component(bundle):
    assert {*spacy_component.Language.get_factory_meta("osler").default_config} == {
        "bundle", "device", *AnnotateOptions.model_fields
    }  # fmt: skip
    nlp = spacy.blank("en")
    options = {"heads": ["drugs"], "language": "en", "thresholds": {"DRUG": 1.0}, "attributes": "rules"}
    nlp.add_pipe("osler", config={"bundle": str(bundle), **options})
    doc = nlp("No aspirin 81 mg. " * 5)
    assert {span.label_ for span in doc.spans["osler"]} == {"DOSE"}
    [expected] = AnnotationEngine.load(bundle, AnnotateOptions(**options)).annotate([Document("1", doc.text)])
    assert doc._.osler["spans"] == expected.to_dict()["spans"]


def test_one_head_is_exported_if_it_is_named(bundle, tmp_path):
    nlp = spacy.load(run(ExportRecipe(bundle=bundle, to="spacy", head="farmacos"), tmp_path / "nlp").path)
    assert nlp.lang == "es"
    assert {span.label_ for doc in nlp.pipe(TEXTS) for span in doc.spans["osler"]} == {"FARMACO"}


def test_mistakes_are_told(bundle, pair_bundle, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("osler")
    with pytest.raises(RecipeError, match="has no bundle"):
        nlp("text")
    with pytest.raises(RecipeError, match="config of osler: 'min_score' must be at most 1"):
        spacy.blank("en").add_pipe("osler", config={"min_score": 3.0})
    for head in (None, "entailment"):
        with pytest.raises(RecipeError, match=r"compare two texts|pairs of texts"):
            plan(ExportRecipe(bundle=pair_bundle if head is None else bundle, to="spacy", head=head), tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_an_onnx_bundle_works_too(bundle, tmp_path, tokenizer_folder):
    light = run(
        ExportRecipe(bundle=make_bundle(tmp_path / "one", tokenizer_folder, ("drugs",)), to="onnx"), tmp_path / "onnx"
    )
    nlp = spacy.load(run(ExportRecipe(bundle=light.path, to="spacy"), tmp_path / "nlp").path)
    for doc, document in zip(nlp.pipe(TEXTS), annotated(light.path, ["drugs"]), strict=True):
        assert doc._.osler["spans"] == document.to_dict()["spans"]


def test_the_entry_point_names_the_component(root):
    declared = tomllib.loads((root / "pyproject.toml").read_text())["project"]["entry-points"]["spacy_factories"]
    module, _, name = declared["osler"].partition(":")
    assert getattr(import_module(module), name) is spacy_component.make_component
