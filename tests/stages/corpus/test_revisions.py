from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

from osler.stages.corpus import clean, revisions


def article(pmid: int, text: str, version: int = 1) -> str:
    return (
        f'<PubmedArticle><MedlineCitation><PMID Version="{version}">{pmid}</PMID><Article><ArticleTitle>{text}</ArticleTitle>'
        "</Article></MedlineCitation></PubmedArticle>\n"
    )


def deleted(*pmids: int, version: int = 1) -> str:
    return (
        "<DeleteCitation>" + "".join(f'<PMID Version="{version}">{pmid}</PMID>' for pmid in pmids) + "</DeleteCitation>"
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "pubmed"
    path.mkdir()
    return path


def write(folder: Path, name: str, *records: str) -> Path:
    path = folder / name
    path.write_text(f"<PubmedArticleSet>{''.join(records)}</PubmedArticleSet>")
    return path


def texts(documents: Any, corpus: Any) -> dict[str, str]:
    return {row["id"]: row["text"] for row in documents(corpus)}


OPTIONS: dict[str, Any] = {"filters": {"length": {"min_characters": 4}}}


def test_the_latest_revision_remains_and_the_ledger_says_why(folder: Path, build, documents, ledger) -> None:
    write(
        folder,
        "pubmed24n0001.xml",
        article(1, "one old"),
        article(2, "number two"),
        article(3, "three"),
        article(4, "four"),
    )
    write(folder, "pubmed24n0002.xml", article(1, "one new"), article(4, "4"), deleted(3))
    corpus = build(folder, **OPTIONS)
    assert texts(documents, corpus) == {"1": "one new", "2": "number two"}
    rows = {(row["id"], row["file"][10:13]): (row["step"], row["reason"], row["kept_id"]) for row in ledger(corpus)}
    assert rows == {
        ("1", "001"): ("revisions", "revision.replaced", "1"),
        ("3", "001"): ("revisions", "revision.withdrawn", None),
        ("4", "001"): ("revisions", "revision.replaced", None),  # an outdated text is not better than none
        ("4", "002"): ("filter", "length.min_characters", None),
    }
    assert json.loads((corpus.path / "card.json").read_text())["removed"]["revision.withdrawn"] == 1


def test_a_revision_with_the_same_text_is_no_copy_of_the_one_it_replaces(folder: Path, build, documents) -> None:
    write(folder, "pubmed24n0001.xml", article(1, "same text"))
    write(folder, "pubmed24n0002.xml", article(1, "same text"))
    assert texts(documents, build(folder, **OPTIONS)) == {"1": "same text"}


def test_versions_count_before_files_and_files_before_their_order(folder: Path, build, documents) -> None:
    base = write(folder, "pubmed24n0001.xml", article(1, "version two", 2), article(2, "older"), article(5, "five", 2))
    update = write(folder, "pubmed24n0900.xml", article(1, "version one"), article(2, "newer"), deleted(5))
    for files in ((base, update), (update, base)):
        corpus = build({"files": list(map(str, files)), "name": "pubmed"}, **OPTIONS)
        assert texts(documents, corpus) == {"1": "version two", "2": "newer", "5": "five"}


def test_sources_of_one_name_share_their_records_and_others_do_not(folder: Path, build, documents) -> None:
    base, update = write(folder, "a.xml", article(1, "first")), write(folder, "b.xml", article(1, "second"))
    together = [{"files": str(path), "name": "pubmed", "reader": "pubmed"} for path in (base, update)]
    assert [row["text"] for row in documents(build(*together, **OPTIONS))] == ["second"]
    apart = [{"files": str(path), "name": path.stem, "reader": "pubmed"} for path in (base, update)]
    assert [row["text"] for row in documents(build(*apart, **OPTIONS))] == ["first", "second"]


def test_the_result_does_not_depend_on_parts_memory_or_workers(folder: Path, build, monkeypatch) -> None:
    dice = random.Random(7)
    expected: dict[str, str] = {}
    for number in range(6):
        records = []
        for _ in range(30):
            pmid = dice.randrange(40)
            if dice.random() < 0.2:
                records.append(deleted(pmid))
                expected.pop(str(pmid), None)
            else:
                expected[str(pmid)] = f"text {pmid} of file {number} number {len(records)}"
                records.append(article(pmid, expected[str(pmid)]))
        write(folder, f"pubmed24n{number:04d}.xml", *records)
    outputs = set()
    for size, at_once, workers in itertools.product((1, 1 << 24), (1, 1000), (1, 2)):
        monkeypatch.setattr(clean, "PART_BYTES", size)
        monkeypatch.setattr(revisions, "AT_ONCE", at_once)
        corpus = build(folder, **OPTIONS, workers=workers)
        outputs.add(tuple(path.read_bytes() for path in sorted((corpus.path / "shards").iterdir())))
    import pyarrow.parquet as pq

    assert len(outputs) == 1
    rows = pq.read_table(corpus.path / "shards").to_pylist()
    assert {row["id"]: row["text"] for row in rows} == expected
