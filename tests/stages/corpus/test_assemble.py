"""Columns of the shards."""

from __future__ import annotations

import pytest

from osler.core.errors import InputError


def test_every_document_has_its_term_density(build, jsonl, documents, tmp_path):
    raw = jsonl(["Fiebre y tos seca. " * 9, "Sin novedad desde la última visita de ayer.", "¡TOS SECA! " * 20])
    assert {row["density"] for row in documents(build(raw))} == {None}
    terms = tmp_path / "terms.txt"
    terms.write_text("fiebre\ntos seca\n", encoding="utf-8")
    corpus = build(raw, density_terms=str(terms))
    assert [row["density"] for row in documents(corpus)] == [0.75, 0.0, 1.0]
    # The terms decide whether a corpus can be reused, not where they are.
    again = terms.rename(tmp_path / "moved.txt")
    assert build(raw, density_terms=str(again), out=corpus.path).reused
    again.write_text("fiebre\n", encoding="utf-8")
    with pytest.raises(Exception, match="--force"):
        build(raw, density_terms=str(again), out=corpus.path)
    changed = build(raw, density_terms=str(again), out=corpus.path, force=True)
    assert [row["density"] for row in documents(changed)] == [0.25, 0.0, 0.0]


def test_a_missing_list_of_terms_is_an_error_before_anything_is_read(build, jsonl, tmp_path):
    with pytest.raises(InputError, match="no such file"):
        build(jsonl(["some text"]), density_terms=str(tmp_path / "none.txt"))
