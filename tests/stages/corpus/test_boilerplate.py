from __future__ import annotations

from pathlib import Path

import pytest

from osler.stages.corpus import boilerplate
from osler.stages.corpus import clean as parts

TEXT = "The patient was seen in clinic and reports no new symptoms, number "
MENU = "Home | About us | Contact"


def _pages(count: int, menu_in: int) -> list[str]:
    return [
        f"{MENU}\n{TEXT}{n}\n  {MENU} \nRare {n // 2}" if n < menu_in else f"{TEXT}{n}\nRare {n}" for n in range(count)
    ]


def test_lines_that_many_documents_share_are_removed(build, jsonl, documents, ledger) -> None:
    corpus = build(jsonl(_pages(20, 5)), boilerplate={"min_documents": 5, "min_share": 0.25})
    texts = [row["text"] for row in documents(corpus)]
    assert texts[0] == f"{TEXT}0\nRare 0"
    assert not any(MENU in text for text in texts)
    rows = [(row["row"], row["reason"], row["unit"], row["characters"]) for row in ledger(corpus)][:3]
    assert rows == [
        (1, "boilerplate.line", "passage", len(MENU)),
        (1, "boilerplate.line", "passage", len(MENU) + 3),
        (1, "boilerplate", "document changed", len(texts[0])),
    ]
    assert corpus.card.characters == sum(map(len, texts))
    assert corpus.card.words == sum(len(text.split()) for text in texts)


@pytest.mark.parametrize("options", [{"min_documents": 6, "min_share": 0.1}, {"min_documents": 2, "min_share": 0.26}])
def test_lines_in_too_few_documents_or_too_small_a_share_stay(build, jsonl, documents, options) -> None:
    assert MENU in documents(build(jsonl(_pages(20, 5)), boilerplate=options))[0]["text"]


def test_each_source_counts_for_itself_and_may_have_its_own_rule(build, jsonl, documents) -> None:
    names = ("web", "ehr", "books")
    sources = [
        {"files": str(jsonl([f"{MENU}\n{TEXT}{name} {n}" for n in range(6)], f"{name}.jsonl"))} for name in names
    ]
    sources[1]["clean"] = {"boilerplate": False}
    sources[2]["clean"] = {"boilerplate": {"min_documents": 7}}
    rows = documents(build(*sources, boilerplate={"min_documents": 6}))
    assert {row["source"] for row in rows if MENU in row["text"]} == {"ehr", "books"}


def test_a_document_of_boilerplate_alone_is_removed(build, jsonl, documents, ledger) -> None:
    rows = [f"{MENU} and more menu to make this line long\n{TEXT}{n}" for n in range(4)]
    rows.append(f"{MENU} and more menu to make this line long\n\n{MENU} and more menu to make this line long")
    corpus = build(jsonl(rows), boilerplate={"min_documents": 4, "min_share": 0.5})
    assert len(documents(corpus)) == 4
    [row] = [row for row in ledger(corpus) if row["unit"] == "document"]
    assert (row["row"], row["step"], row["reason"]) == (5, "boilerplate", "boilerplate.empty")
    assert corpus.card.removed == {"boilerplate.empty": 1}


def test_same_bytes_for_any_division_of_the_work(build, jsonl, tmp_path: Path, monkeypatch) -> None:
    path = jsonl(_pages(60, 30))
    options = {"boilerplate": {"min_documents": 5}}
    whole = build(path, **options)
    monkeypatch.setattr(parts, "PART_BYTES", 1000)
    monkeypatch.setattr(boilerplate, "ROWS_IN_MEMORY", 7)
    assert build(path, **options).manifest.files == whole.manifest.files
    assert build(path, workers=2, **options).manifest.files == whole.manifest.files


HEADINGS = ("HISTORY OF PRESENT ILLNESS:", "Antecedentes:", "No known allergies.", "Exploración física")
LETTERHEAD = "Hospital General, Servicio de Medicina Interna, Calle Mayor 1"


def _notes() -> list[str]:
    return [f"{LETTERHEAD}\n" + "\n".join(f"{line}\n{TEXT}{n}" for line in HEADINGS) for n in range(12)]


def test_headings_that_all_notes_share_stay_in_the_clinical_preset(build, jsonl, documents) -> None:
    notes = {"name": "notes", "files": [str(jsonl(_notes()))]}
    for made in (
        build(notes | {"clean": "clinical"}, boilerplate={"min_documents": 5}),
        build(notes, preset="clinical"),
    ):
        assert [row["text"] for row in documents(made)] == _notes()
    # Without the preset they would go: to a count of lines, a heading is a menu.
    assert "Antecedentes" not in documents(build(notes, boilerplate={"min_documents": 5}))[0]["text"]


def test_a_letterhead_can_go_while_short_lines_stay(build, jsonl, documents) -> None:
    clean = {"preset": "clinical", "boilerplate": {"min_share": 0.9, "min_characters": 40}}
    texts = [row["text"] for row in documents(build({"files": [str(jsonl(_notes()))], "clean": clean}))]
    assert not any(LETTERHEAD in text for text in texts)
    assert all(line in text for text in texts for line in HEADINGS)


def test_a_second_corpus_of_one_process_has_its_own_lines(build, jsonl, documents, tmp_path: Path) -> None:
    for menu in ("Home | Contact", "Start | Help"):
        path = jsonl([f"{menu}\n{TEXT}{n}" for n in range(12)])
        corpus = build(path, out=tmp_path / "corpus", force=True, boilerplate={})
        assert [row["text"] for row in documents(corpus)] == [f"{TEXT}{n}" for n in range(12)]
