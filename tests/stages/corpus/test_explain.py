from __future__ import annotations

import pytest

from osler.artifacts.corpus import Corpus
from osler.artifacts.ledger import LedgerEntry
from osler.core.config import load_recipe
from osler.core.errors import InputError
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.explain import explain, keeping, kept_twin, original_of
from osler.stages.corpus.originals import WordChange, differing_words


def test_a_kept_document_says_where_it_was_read_and_what_changed_it(noted: Corpus, notes) -> None:
    [kept] = explain(noted, "kept")
    assert (kept.source, kept.file, kept.row, kept.removal, kept.advice) == ("notes", "notes.jsonl", 1, None, "")
    assert kept.kept is not None
    assert kept.kept.text == notes["kept"]
    [broken] = explain(noted, "broken")
    assert [(entry.step, entry.unit) for entry in broken.entries] == [("repair", "document changed")]


def test_a_removed_document_says_by_what_and_which_setting_would_keep_it(noted: Corpus) -> None:
    [short] = explain(noted, "short")
    assert short.kept is None
    assert short.removal is not None
    assert (short.removal.step, short.removal.reason, short.removal.characters) == (
        "filter",
        "length.min_characters",
        13,
    )
    assert short.advice == (
        "A lower value of `filters.length.min_characters` (now 40; the document has 13 characters), or leaving out the filter."
    )
    [copy] = explain(noted, "copy")
    assert copy.removal is not None
    assert (copy.removal.step, copy.removal.kept_id) == ("exact-duplicates", "kept")
    assert copy.advice == 'exact_duplicates = "keep" keeps all copies.'
    [near] = explain(noted, "near")
    assert near.advice.startswith("A near_duplicates.threshold above 0.620")


def test_ids_that_several_documents_have_are_all_explained(build, jsonl, notes) -> None:
    files = [jsonl([{"id": "7", "text": f"{notes['kept']} {name}"}], f"{name}.jsonl") for name in ("a", "b")]
    corpus = Corpus.open(build(*files).path)
    assert [(found.source, found.file) for found in explain(corpus, "7")] == [("a", "a.jsonl"), ("b", "b.jsonl")]
    assert [found.source for found in explain(corpus, "7", "b")] == ["b"]


def test_a_document_without_an_id_is_named_by_file_and_row(build, jsonl, notes) -> None:
    corpus = Corpus.open(build(jsonl([notes["kept"], notes["short"]])).path)
    [short] = explain(corpus, "notes.jsonl:2")
    assert (short.row, short.removal and short.removal.reason) == (2, "length.min_characters")
    assert original_of(corpus, short).text == notes["short"]


def test_an_unknown_id_is_an_error_that_names_no_text(noted: Corpus) -> None:
    with pytest.raises(InputError, match=r"no document has this id. Ids are those of the raw files"):
        explain(noted, "nobody")
    with pytest.raises(InputError, match="no document from the source 'web' has this id"):
        explain(noted, "kept", "web")


def test_the_words_that_differ_are_found_in_the_raw_files(noted: Corpus, notes) -> None:
    [near] = explain(noted, "near")
    assert near.removal is not None
    twin = kept_twin(noted, near.removal, original_of(noted, near).cleaned)
    assert twin is not None
    assert differing_words(original_of(noted, near).cleaned, twin.text) == [
        WordChange(10, ("ibuprofen", "400"), ("aspirin", "100")),
        WordChange(19, ("and", "then", "went", "home"), ()),
    ]
    [broken] = explain(noted, "broken")
    original = original_of(noted, broken)
    assert (original.text, original.cleaned) == (notes["broken"], notes["broken"].replace("â€™", "’"))


@pytest.mark.parametrize(
    ("step", "reason", "said"),
    [
        ("read", "the line is not valid JSON", "correct the raw file"),
        ("filter", "empty", "no text"),
        ("filter", "length.max_words", "A higher value of `clean.filters.length.max_words` (now 18)"),
        ("filter", "gone.max_share", "Leaving out the filter `clean.filters.gone`"),
        ("exact-duplicates", "duplicate.exact", 'clean.exact_duplicates = "keep"'),
        ("decontaminate", "contaminated.meddocan.test", "decontaminate.tasks"),
        ("select", "mimic.categories", "option (mimic.categories)"),
        ("select", "ids", "source's `ids`"),
        ("revisions", "revision.replaced", "latest version"),
        ("licence", "licences.unknown", "Its licence in `licences`"),
        ("boilerplate", "boilerplate.empty", "boilerplate.min_documents"),
    ],
)
def test_every_step_has_advice(step, reason, said) -> None:
    sources = [{"files": ["x"], "name": "notes", "clean": {"filters": {"length": {"max_words": 18}}}}]
    recipe = load_recipe(CorpusRecipe, None, [], {"sources": sources})
    entry = LedgerEntry("notes", "f", 1, "d", step, reason, "document")
    assert said in keeping(entry, recipe)
