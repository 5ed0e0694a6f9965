"""Cleaning of single sources: notes of a hospital stay as they are while the rest of the corpus is cleaned."""

from __future__ import annotations

import pytest

from osler.core.artifact import identity_of
from osler.core.config import load_recipe
from osler.core.errors import RecipeError
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.run import plan

LABS = "Hb 12.1\r\nNa 140  \n"
BROKEN = "  El paciente refiere dolor, fiebre y disuria desde hace tres dÃ\xadas &lt; 38 ºC.\n"
ABSTRACT = "A long enough abstract about fever, pain and the treatment of both in adults."


def test_notes_that_are_kept_as_they_are_stay_byte_for_byte(tmp_path, build, jsonl, documents, ledger):
    notes = [LABS, LABS, LABS, BROKEN, "x", " \n"]
    web = jsonl([ABSTRACT, ABSTRACT, "too short"], "web.jsonl")
    ehr = {"name": "ehr", "files": [str(jsonl(notes, "ehr.jsonl"))], "clean": False}
    corpus = build(web, ehr)
    assert [row["text"] for row in documents(corpus) if row["source"] == "ehr"] == notes[:-1]
    lost = [(row["source"], row["reason"]) for row in ledger(corpus) if row["unit"] == "document"]
    assert lost == [("web", "duplicate.exact"), ("web", "length.min_characters"), ("ehr", "empty")]
    card = corpus.card
    assert {name: (source.read, source.documents) for name, source in card.sources.items()} == {
        "web": (3, 1),
        "ehr": (6, 5),
    }
    assert "- Source ehr: Documents exactly as they are" in (corpus.path / "README.md").read_text()


@pytest.mark.parametrize("ehr_first", [True, False])
def test_another_source_loses_its_copies_of_a_kept_note(build, jsonl, documents, ehr_first):
    note = f"\n{ABSTRACT}\n"
    sources = [
        {"files": [str(jsonl([note, note], "ehr.jsonl"))], "clean": "none"},
        {"files": [str(jsonl([ABSTRACT, "Another text that is long enough to stay."], "web.jsonl"))]},
    ]
    corpus = build(*(sources if ehr_first else reversed(sources)))
    texts = sorted((row["source"], row["text"]) for row in documents(corpus))
    assert texts == [("ehr", note), ("ehr", note), ("web", "Another text that is long enough to stay.")]


def test_a_table_changes_single_settings_and_the_rest_is_the_corpus_s(build, jsonl, documents):
    own = {"filters": {"length": {"min_characters": 3}}}
    sources = [
        {"files": [str(jsonl(["a&lt;b c", "a&lt;b c", "x"], "own.jsonl"))], "clean": own},
        {"files": [str(jsonl(["a&lt;b d"], "web.jsonl"))]},
    ]
    corpus = build(*sources, **{"unicode.html_entities": False})
    assert [row["text"] for row in documents(corpus)] == ["a&lt;b c"]


def test_sources_of_one_name_are_cleaned_alike(tmp_path, build, jsonl):
    sources = [
        {"name": "notes", "files": [str(jsonl([ABSTRACT], "a.jsonl"))]},
        {"name": "notes", "files": [str(jsonl([LABS], "b.jsonl"))], "clean": "none"},
    ]
    with pytest.raises(RecipeError, match="two sources are called 'notes'"):
        build(*sources)
    with pytest.raises(RecipeError, match="two sources are called 'notes'"):
        plan(load_recipe(CorpusRecipe, None, [], {"sources": sources}), tmp_path / "out")


def test_an_unknown_cleaning_is_named(build, jsonl):
    with pytest.raises(RecipeError, match="must be a table, false or one of carrino2022, clinical, none, not 'nun'"):
        build({"files": [str(jsonl([ABSTRACT]))], "clean": "nun"})


def test_a_corpus_without_cleanings_of_its_own_is_recognised_as_before():
    sources = ["notes", {"files": ["x"], "name": "ehr", "weight": 2.0}]
    recipe = CorpusRecipe(sources=sources, filters={"length": {"min_characters": 20}})
    # Made before sources had a cleaning.
    assert identity_of("corpus", recipe, {}) == "c0a12652f3c11ef70d1cdd18fbd12733ee37feb288a54dc6980cb922d84afe14"
    assert recipe.resolved()["sources"][1].keys() == {
        "name",
        "files",
        "unit",
        "text_field",
        "text_fields",
        "id_field",
        "ids",
        "facts",
        "encoding",
        "weight",
    }
