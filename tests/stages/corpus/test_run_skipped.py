"""What can be read is read, and the rest is listed: file, line or byte, and why. `strict` makes it an error."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from osler.core.errors import InputError

TEXT = "The patient was seen in clinic and reports no new symptoms, number "
CANARY = "Canaria-Zebedee-4711"


def lines(count: int, start: int = 0) -> bytes:
    return b"".join(json.dumps({"text": f"{TEXT}{n}"}).encode() + b"\n" for n in range(start, start + count))


def test_bad_lines_are_left_out_and_listed(build, tmp_path: Path, documents, ledger, capfd) -> None:
    path = tmp_path / "notes.jsonl"
    bad = [b'{"text": "' + CANARY.encode(), b'{"text": "\xe9"}', b"[1]"]
    path.write_bytes(lines(2) + b"\n".join(bad) + b"\n" + lines(2, 2))
    corpus = build(path)
    assert [row["id"] for row in documents(corpus)] == [f"notes.jsonl:{row}" for row in (1, 2, 6, 7)]
    skipped = [(row["row"], row["step"], row["unit"]) for row in ledger(corpus)]
    assert skipped == [(row, "read", "document") for row in (3, 4, 5)]
    assert (corpus.card.unreadable, corpus.card.read, corpus.card.documents) == (3, 4, 4)
    said = capfd.readouterr().err
    assert "warning: skipped notes.jsonl:3 (notes): not valid JSON at column 10" in said
    assert "warning: skipped notes.jsonl:4 (notes): byte 11 of this line is not valid utf-8" in said
    assert "warning: skipped notes.jsonl:5 (notes): the line holds a list, not an object" in said
    assert CANARY not in said + (corpus.path / "card.json").read_text()
    # A corpus that is reused says it again, and strict refuses it.
    assert build(path, out=corpus.path).reused
    assert "skipped notes.jsonl:3" in capfd.readouterr().err
    with pytest.raises(InputError, match=r"notes\.jsonl:3: not valid JSON.*2 more records cannot be read"):
        build(path, out=corpus.path, strict=True)


def test_a_truncated_gzip_gives_what_comes_before_the_damage(build, tmp_path: Path, documents, ledger) -> None:
    path, other = tmp_path / "notes.jsonl.gz", tmp_path / "other.jsonl"
    data = gzip.compress(
        b"".join(json.dumps({"text": f"{TEXT}{n * 7919 % 65537}"}).encode() + b"\n" for n in range(5000))
    )
    path.write_bytes(data[: len(data) // 2])
    other.write_bytes(lines(3, 70_000))
    corpus = build(path, other)
    by_source = [row["source"] for row in documents(corpus)]
    assert by_source.count("other") == 3
    assert by_source.count("notes") > 1000
    [row] = [row for row in ledger(corpus) if row["step"] == "read"]
    assert (row["file"], row["row"]) == ("notes.jsonl.gz", by_source.count("notes") + 1)
    assert row["reason"] == "the compressed file is damaged or truncated; it cannot be read from this line on"


def test_files_that_cannot_be_opened_and_mixed_encodings(build, tmp_path: Path, documents, capfd) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nothing")
    pq.write_table(pa.table({"note": [TEXT]}), tmp_path / "other.parquet")
    (tmp_path / "mixed.txt").write_bytes(
        f"{TEXT}uno\n".encode() + f"{TEXT}dos años\n".encode("latin-1") + f"{TEXT}ña".encode()
    )
    sources = [str(tmp_path / name) for name in ("broken.parquet", "other.parquet")]
    corpus = build(*sources, {"files": str(tmp_path / "mixed.txt"), "unit": "line"})
    assert [row["text"] for row in documents(corpus)] == [f"{TEXT}uno", f"{TEXT}ña"]
    said = capfd.readouterr().err
    assert "skipped broken.parquet (broken): not a valid Parquet file" in said
    assert "skipped other.parquet (other): the file has no column 'text'" in said
    assert "skipped mixed.txt:2 (mixed): byte 73 of this line is not valid utf-8" in said
    assert "source broken: no documents" in said


def test_a_source_that_gives_nothing_is_named(build, tmp_path: Path, jsonl, capfd) -> None:
    (tmp_path / "empty").mkdir()
    sources = [jsonl([TEXT], "good.jsonl"), jsonl(["short", "tiny"], "short.jsonl"), tmp_path / "empty"]
    (tmp_path / "nothing.jsonl").write_bytes(b"")
    build(*sources, tmp_path / "nothing.jsonl")
    said = capfd.readouterr().err
    assert "source short: all 2 documents were removed: length.min_characters (2)" in said
    assert f"source {tmp_path / 'empty'}: no files to read" in said
    assert "source nothing: no documents" in said
    with pytest.raises(InputError, match="source short: all 2 documents were removed"):
        build(*sources, strict=True)


def test_nothing_at_all_is_an_error_that_says_what_to_do(build, jsonl) -> None:
    with pytest.raises(InputError, match=r"has no field 'text'.*2 more records cannot be read.*--text-field"):
        build(jsonl([{"note": TEXT}] * 3))
