from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from osler.core.errors import InputError, MissingExtraError
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.inputs import find_inputs, on_disk, read_bytes
from osler.stages.corpus.opening import check_unchanged, open_bytes, reading
from osler.stages.corpus.readers import READERS


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "raw.zip"
    pq.write_table(pa.table({"text": ["from a table"]}), tmp_path / "t.parquet")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("b/notes.jsonl", '{"text": "one"}\n{"text": "two"}\n')
        file.writestr("a.txt", "plain")
        file.writestr("a.txt.gz", gzip.compress(b"packed"))
        file.writestr("__MACOSX/x.txt", "hidden")
        file.writestr("c.pdf", "unknown")
        file.write(tmp_path / "t.parquet", "t.parquet")
    return path


def texts(*files: str | Path) -> list[tuple[str, str]]:
    source = CorpusSource(files=files)
    found = []
    for file in find_inputs([source]):
        reader = READERS.get(file.reader)
        pieces = reader.cut(file, source, 10)
        found += [(file.name, record.text) for piece in pieces for record in reader.read(piece, source)]
    return found


def test_the_members_of_a_zip_archive_are_files(archive: Path) -> None:
    assert texts(archive) == [
        ("raw.zip/a.txt", "plain"),
        ("raw.zip/a.txt.gz", "packed"),
        ("raw.zip/b/notes.jsonl", "one"),
        ("raw.zip/b/notes.jsonl", "two"),
        ("raw.zip/t.parquet", "from a table"),
    ]
    assert on_disk(find_inputs([CorpusSource(files=[archive])])) == [archive]


def test_patterns_reach_into_archives(archive: Path) -> None:
    assert texts(f"{archive}/*.jsonl") == [("raw.zip/b/notes.jsonl", "one"), ("raw.zip/b/notes.jsonl", "two")]
    assert texts(f"{archive}/a.txt", archive.parent / "*.zip")[0] == ("raw.zip/a.txt", "plain")
    assert len(texts(archive.parent)) == 6  # the folder also holds the table
    with pytest.raises(InputError, match="no file in the archive matches"):
        texts(f"{archive}/*.csv")
    with pytest.raises(InputError, match="no reader for this file type"):
        texts(f"{archive}/c.pdf")


def test_a_corpus_from_an_archive_is_built_again_when_the_archive_changes(archive: Path, build, documents) -> None:
    corpus = build(archive, filters={}, out=archive.parent / "out")
    assert sorted(row["text"] for row in documents(corpus)) == ["from a table", "one", "packed", "plain", "two"]
    assert build(archive, filters={}, out=archive.parent / "out").reused


def test_a_member_that_points_outside_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("../escape.txt", "x")
    with pytest.raises(InputError, match="points outside the archive"):
        texts(path)


def test_a_damaged_archive_is_an_error(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:200])
    with pytest.raises(InputError, match="damaged or truncated"):
        texts(archive)


def test_zstandard_files_frame_after_frame(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    lines = [json.dumps({"text": f"note {number} {'x' * 50}"}).encode() + b"\n" for number in range(5000)]
    packed = zstandard.compress(b"".join(lines[:2000])) + zstandard.compress(b"".join(lines[2000:]))
    path = tmp_path / "notes.jsonl.zst"
    path.write_bytes(packed)
    assert read_bytes(path) == b"".join(lines)
    assert len(texts(path)) == 5000
    path.write_bytes(packed[:-20])
    with pytest.raises(InputError, match="damaged or truncated"):
        read_bytes(path)
    path.write_bytes(b"no zstandard at all")
    with pytest.raises(InputError, match="damaged or truncated"), reading(path), open_bytes(path) as handle:
        handle.read()


def test_zstandard_files_without_the_package_name_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    path = tmp_path / "notes.jsonl.zst"
    path.write_bytes(b"x")
    with pytest.raises(MissingExtraError, match=r"pip install \"osler\[zstd\]\""):
        read_bytes(path)


def test_a_file_that_is_not_as_it_was_found_is_an_error(archive: Path, tmp_path: Path) -> None:
    for file in find_inputs([CorpusSource(files=[archive])]):
        check_unchanged(file.path, file.size)
        with pytest.raises(InputError, match="missing or has changed since the run began"):
            check_unchanged(file.path, file.size + 1)
    for gone in (archive / "gone.txt", tmp_path / "gone.zip" / "a.txt", tmp_path / "gone.txt"):
        with pytest.raises(InputError, match="all nodes must see the same files") as caught:
            check_unchanged(gone, 1)
        assert caught.value.where == str(gone)
