from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from osler.artifacts.corpus import LEDGER_SCHEMA, Corpus
from osler.cli.main import app

SECRET = "Secretina"
KEPT = f"The patient {SECRET} was admitted with chest pain and was given aspirin 100 mg once a day"
NEAR = f"{KEPT} and then went home with her daughter on the third day"


def osler(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["corpus", *arguments], env={"COLUMNS": "160"})
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kept note, a short one and a near-duplicate."""
    monkeypatch.chdir(tmp_path)
    texts = {"kept": KEPT, "short": SECRET, "near": NEAR}
    lines = [json.dumps({"id": key, "text": text}) + "\n" for key, text in texts.items()]
    Path("notes.jsonl").write_text("".join(lines))
    osler("build", "notes.jsonl", "--language", "en", "--out", "corpus", "--set", "filters.length.max_words=20")
    path = Corpus.open("corpus").ledger_path
    twin = {"step": "near-duplicates", "reason": "near_duplicates", "kept_id": "kept", "kept_source": "notes"}
    rows = [row | (twin | {"jaccard": 0.7} if row["id"] == "near" else {}) for row in pq.read_table(path).to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, LEDGER_SCHEMA), path)
    return "corpus"


def test_the_card_is_printed(corpus: str) -> None:
    text = osler("show", corpus)
    assert "tokens after" in text
    assert "length.min_characters" in text
    assert Corpus.open(corpus).card.sha256 in text
    assert SECRET not in text


def test_a_document_is_explained_without_its_text(corpus: str) -> None:
    text = osler("explain", corpus, "near")
    assert "read from           notes.jsonl, row 3" in text
    assert f"removed by near-duplicates (near_duplicates), {len(NEAR)} characters" in text
    assert "kept of source notes, Jaccard 0.700" in text
    assert "near_duplicates.threshold above 0.700" in text
    text += osler("explain", corpus, "kept") + osler("explain", corpus, "short")
    assert "kept in shard-00000.parquet" in text
    assert "`filters.length.min_characters` (now 40; the document has 9 characters)" in text
    assert SECRET not in text


def test_differences_are_counted_and_only_with_text_printed(corpus: str) -> None:
    text = osler("explain", corpus, "near", "--diff")
    assert "1 place: 11 words only in it, 0 only in the kept one; --text shows them" in text
    assert "daughter" not in text
    text = osler("explain", corpus, "near", "--diff", "--text")
    assert "and then went home with her daughter on the third day" in text
    assert "This prints the text of documents." in text
    assert "it was not removed as a duplicate" in osler("explain", corpus, "short", "--diff")


def test_text_is_printed_when_it_is_asked_for(corpus: str) -> None:
    assert KEPT in osler("explain", corpus, "kept", "--text")
    assert SECRET in osler("explain", corpus, "short", "--text")


def test_an_audit_prints_a_table_and_snippets_only_with_text(corpus: str) -> None:
    text = osler("audit", corpus, "--step", "near-duplicates")
    assert "1 of 1 documents that near-duplicates removed" in text
    assert "0.700" in text
    assert SECRET not in text
    text = osler("audit", corpus, "--step", "near-duplicates", "--text")
    assert "kept instead" in text
    assert "daughter" in text
    assert "This prints the text of documents." in text


def test_a_near_duplicate_of_a_build_is_explained_with_its_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [f"word{number}" for number in range(80)]
    texts = {"first": words, "second": [*words[:40], SECRET, *words[41:]], "other": words[::-1]}
    lines = [json.dumps({"id": key, "text": " ".join(text)}) + "\n" for key, text in texts.items()]
    Path("notes.jsonl").write_text("".join(lines))
    osler("build", "notes.jsonl", "--out", "corpus", "--set", "near_duplicates.threshold=0.8")
    text = osler("explain", "corpus", "second", "--diff")
    assert "removed by near-duplicates (duplicate.near)" in text
    assert "first of source notes, Jaccard 0.9" in text
    assert "1 place: 1 words only in it, 1 only in the kept one" in text
    assert SECRET not in text
    assert SECRET in osler("audit", "corpus", "--step", "near-duplicates", "--text")
    assert "near-duplicates" in Path("corpus/report.html").read_text()
