from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from osler.artifacts.corpus import LEDGER_SCHEMA, Corpus
from osler.artifacts.ledger import LedgerEntry
from osler.core.config import load_recipe
from osler.core.errors import InputError
from osler.stages.corpus.audit import SNIPPET, audit, audit_table
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.explain import WordChange, differing_words, explain, keeping, kept_twin, original_of
from osler.stages.corpus.originals import Origin, Originals

KEPT = "The patient was admitted with chest pain and was given aspirin 100 mg once a day for one week"
NEAR = (
    "The patient was admitted with chest pain and was given ibuprofen 400 mg once a day for one week and then went home"
)
SHORT = "No complaints"
BROKEN = "The patientâ€™s fever was gone on the third day after the first dose"


def records() -> list[dict[str, str]]:
    texts = {"kept": KEPT, "short": SHORT, "copy": f" {KEPT}\n", "near": NEAR, "broken": BROKEN}
    return [{"id": key, "text": text} for key, text in texts.items()]


def rewrite_ledger(corpus: Corpus, key: str, **values: Any) -> None:
    """Change the rows of a document: what a step that compares documents would have written."""
    rows = [row | (values if row["id"] == key else {}) for row in pq.read_table(corpus.ledger_path).to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, LEDGER_SCHEMA), corpus.ledger_path, row_group_size=2)


@pytest.fixture
def corpus(build, jsonl) -> Corpus:
    """Five notes: one kept, one too short, one copy, one near-duplicate, and one whose characters were repaired."""
    notes = jsonl(records())
    built = Corpus.open(build({"files": [str(notes)], "name": "notes"}, filters={"length": {"max_words": 18}}).path)
    rewrite_ledger(
        built,
        "near",
        step="near-duplicates",
        reason="near_duplicates",
        kept_id="kept",
        kept_source="notes",
        jaccard=0.62,
    )
    return built


def test_a_kept_document_says_where_it_was_read_and_what_changed_it(corpus: Corpus) -> None:
    [kept] = explain(corpus, "kept")
    assert (kept.source, kept.file, kept.row, kept.removal, kept.advice) == ("notes", "notes.jsonl", 1, None, "")
    assert kept.kept is not None
    assert kept.kept.text == KEPT
    [broken] = explain(corpus, "broken")
    assert [(entry.step, entry.unit) for entry in broken.entries] == [("repair", "document changed")]


def test_a_removed_document_says_by_what_and_which_setting_would_keep_it(corpus: Corpus) -> None:
    [short] = explain(corpus, "short")
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
    [copy] = explain(corpus, "copy")
    assert copy.removal is not None
    assert (copy.removal.step, copy.removal.kept_id) == ("exact-duplicates", "kept")
    assert copy.advice == 'exact_duplicates = "keep" keeps all copies.'
    [near] = explain(corpus, "near")
    assert near.advice.startswith("A near_duplicates.threshold above 0.620")


def test_ids_that_several_documents_have_are_all_explained(build, jsonl) -> None:
    files = [jsonl([{"id": "7", "text": f"{KEPT} {name}"}], f"{name}.jsonl") for name in ("a", "b")]
    corpus = Corpus.open(build(*files).path)
    assert [(found.source, found.file) for found in explain(corpus, "7")] == [("a", "a.jsonl"), ("b", "b.jsonl")]
    assert [found.source for found in explain(corpus, "7", "b")] == ["b"]


def test_a_document_without_an_id_is_named_by_file_and_row(build, jsonl) -> None:
    corpus = Corpus.open(build(jsonl([KEPT, SHORT])).path)
    [short] = explain(corpus, "notes.jsonl:2")
    assert (short.row, short.removal and short.removal.reason) == (2, "length.min_characters")
    assert original_of(corpus, short).text == SHORT


def test_an_unknown_id_is_an_error_that_names_no_text(corpus: Corpus) -> None:
    with pytest.raises(InputError, match=r"no document has this id. Ids are those of the raw files"):
        explain(corpus, "nobody")
    with pytest.raises(InputError, match="no document from the source 'web' has this id"):
        explain(corpus, "kept", "web")


def test_the_words_that_differ_are_found_in_the_raw_files(corpus: Corpus) -> None:
    [near] = explain(corpus, "near")
    assert near.removal is not None
    twin = kept_twin(corpus, near.removal)
    assert twin is not None
    assert differing_words(original_of(corpus, near).cleaned, twin.text) == [
        WordChange(10, ("ibuprofen", "400"), ("aspirin", "100")),
        WordChange(18, ("and", "then", "went", "home"), ()),
    ]
    [broken] = explain(corpus, "broken")
    original = original_of(corpus, broken)
    assert (original.text, original.cleaned) == (BROKEN, BROKEN.replace("â€™", "’"))


def test_raw_files_that_are_gone_or_changed_are_errors(corpus: Corpus, tmp_path: Path) -> None:
    origin = Origin("notes", "notes.jsonl", 2, "short")
    raw = tmp_path / "notes.jsonl"
    raw.write_text(json.dumps(records()[0]) + "\n")
    with pytest.raises(
        InputError, match=r"notes\.jsonl: row 2 of this file is not what it was when the corpus was built"
    ):
        Originals(corpus).read([origin])
    raw.unlink()
    with pytest.raises(InputError, match="Run this in the folder in which the corpus was built"):
        Originals(corpus).read([origin])


@pytest.mark.parametrize(
    ("step", "reason", "said"),
    [
        ("read", "the line is not valid JSON", "correct the raw file"),
        ("filter", "empty", "no text"),
        ("filter", "length.max_words", "A higher value of `clean.filters.length.max_words` (now 18)"),
        ("filter", "gone.max_share", "Leaving out the filter `clean.filters.gone`"),
        ("exact-duplicates", "duplicate.exact", 'clean.exact_duplicates = "keep"'),
        ("decontaminate", "meddocan.test", "meddocan.test"),
        ("licence", "licences.unknown", "Its licence in `licences`"),
        ("boilerplate", "boilerplate.empty", "`boilerplate.empty`"),
    ],
)
def test_every_step_has_advice(step, reason, said) -> None:
    sources = [{"files": ["x"], "name": "notes", "clean": {"filters": {"length": {"max_words": 18}}}}]
    recipe = load_recipe(CorpusRecipe, None, [], {"sources": sources})
    entry = LedgerEntry("notes", "f", 1, "d", step, reason, "document")
    assert said in keeping(entry, recipe)


def test_an_audit_has_no_text_unless_it_is_asked_for(corpus: Corpus) -> None:
    [removal], total = audit(corpus, "near-duplicates", 5)
    assert (total, removal.removed, removal.kept) == (1, None, None)
    table = audit_table([removal], total, "near-duplicates")
    assert table.rows == ((1, "notes", "near", "notes.jsonl:4", "near_duplicates", len(NEAR), "kept", 0.62),)


def test_snippets_of_a_pair_begin_where_they_differ(corpus: Corpus) -> None:
    [removal], _ = audit(corpus, "near-duplicates", 5, text=True)
    assert (
        removal.removed
        == "… was admitted with chest pain and was given ibuprofen 400 mg once a day for one week and then went home"
    )
    assert removal.kept == "… was admitted with chest pain and was given aspirin 100 mg once a day for one week"
    [removal], _ = audit(corpus, "filter", 5, text=True)
    assert (removal.removed, removal.kept) == (SHORT, None)


def test_a_snippet_of_a_removed_passage_is_the_passage(corpus: Corpus) -> None:
    rewrite_ledger(corpus, "broken", step="rewrite", reason="masks.url", unit="passage")
    [removal], _ = audit(corpus, "rewrite", 5, text=True)
    assert removal.removed == "patientâ€™s"
    assert len(removal.removed) < SNIPPET
