from __future__ import annotations

from osler.artifacts.corpus import Corpus
from osler.stages.corpus.audit import SNIPPET, audit, audit_table


def test_an_audit_has_no_text_unless_it_is_asked_for(noted: Corpus, notes) -> None:
    [removal], total = audit(noted, "near-duplicates", 5)
    assert (total, removal.removed, removal.kept) == (1, None, None)
    table = audit_table([removal], total, "near-duplicates")
    assert table.rows == ((1, "notes", "near", "notes.jsonl:4", "near_duplicates", len(notes["near"]), "kept", 0.62),)


def test_snippets_of_a_pair_begin_where_they_differ(noted: Corpus, notes) -> None:
    [removal], _ = audit(noted, "near-duplicates", 5, text=True)
    assert (
        removal.removed
        == "… was admitted with chest pain and was given ibuprofen 400 mg once a day for one week and then went home"
    )
    assert removal.kept == "… was admitted with chest pain and was given aspirin 100 mg once a day for one week"
    [removal], _ = audit(noted, "filter", 5, text=True)
    assert (removal.removed, removal.kept) == (notes["short"], None)


def test_a_snippet_of_a_removed_passage_is_the_passage(noted: Corpus, rewrite_ledger) -> None:
    rewrite_ledger(noted, "broken", step="rewrite", reason="masks.url", unit="passage")
    [removal], _ = audit(noted, "rewrite", 5, text=True)
    assert removal.removed == "patientâ€™s"
    assert len(removal.removed) < SNIPPET


def test_a_snippet_of_boilerplate_is_the_line(build, jsonl) -> None:
    texts = [f"Note {number} about a patient who was seen in the ward.\nWritten by a machine." for number in range(4)]
    corpus = Corpus.open(build(jsonl(texts), boilerplate={"min_documents": 3}).path)
    removals, total = audit(corpus, "boilerplate", 2, text=True)
    assert total == 4
    assert [removal.removed for removal in removals] == ["Written by a machine."] * 2


def test_a_step_that_only_changes_documents_is_audited_too(noted: Corpus) -> None:
    [repaired], total = audit(noted, "repair", 5, text=True)
    assert (total, repaired.entry.id, repaired.entry.unit) == (1, "broken", "document changed")
    assert "patientâ€™s" in (repaired.removed or "")
    assert "patient’s" in (repaired.kept or "")
    assert audit_table([repaired], total, "repair").caption == "1 of 1 documents that repair changed"
