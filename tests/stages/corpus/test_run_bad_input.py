"""Every bad input gives one clear error that names the place and never the text. `strict` stops at the first bad record."""

from __future__ import annotations

import bz2
import gzip
import json
import logging
import lzma
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from osler.core.errors import InputError, OslerError, OutputError
from osler.stages.corpus import clean as parts

CANARY = "Canaria-Zebedee-4711"
NOTE = f"{CANARY} was seen in clinic today and went home well."
GOOD = json.dumps({"id": CANARY, "text": NOTE}).encode()


def _refused(build: Callable[..., object], *sources: object, **options: object) -> str:
    """The message of the one error, after checking that nothing in it is text."""
    with pytest.raises(OslerError) as caught:
        build(*sources, **options)
    error: BaseException | None = caught.value
    message = str(error)
    while error is not None:
        assert CANARY not in str(error)
        error = error.__cause__
    return message


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"id": "1", "txt": "CANARY"}', "no field 'text'"),
        (b'{"text": ["CANARY"]}', "holds a list, not a string"),
        (b'{"text": 3.5}', "holds a number, not a string"),
        (b'{"text": "CANARY", "id": {}}', "'id' holds an object"),
        (b'"CANARY"', "the line holds a string, not an object"),
        (b'{"text": "CANARY', "not valid JSON at column 10"),
        (b'{"text": "CANARY \xe9"}', "byte 32 of this line is not valid utf-8"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_line_is_named_by_file_and_line(build, tmp_path: Path, line: bytes, problem: str) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_bytes(b"\n".join([GOOD, GOOD, line.replace(b"CANARY", CANARY.encode()), GOOD]))
    message = _refused(build, path, strict=True)
    assert f"{path}:3: " in message
    assert problem in message


def test_the_line_is_right_in_a_later_range_of_a_large_file(build, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 200)
    path = tmp_path / "notes.jsonl"
    bad = json.dumps({"text": [CANARY]}).encode()
    path.write_bytes(b"\n".join([*[GOOD] * 20, bad, *[GOOD] * 5]))
    assert f"{path}:21: " in _refused(build, path, workers=2, strict=True)


def test_text_that_is_not_utf8(build, tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_bytes(f"{NOTE}\nsecond line\nexploraci".encode() + b"\xf3n")
    message = _refused(build, path)
    assert f"{path}:3: byte 10 of this line is not valid utf-8" in message
    assert "latin-1" in message


@pytest.mark.parametrize("character", ["\0", "\ud800"])
def test_nul_and_lone_surrogates_are_repaired_or_refused_by_name(build, jsonl, documents, character: str) -> None:
    path = jsonl([{"id": f"{CANARY}{character}", "text": f"{NOTE}{character}"}])
    [row] = documents(build(path))
    assert row["text"] == NOTE + ("" if character == "\0" else "\ufffd")
    assert row["id"] in {CANARY, f"{CANARY}?"}
    message = _refused(build, path, unicode={"repair": False})
    assert f"{path}:1: a {'NUL' if character == chr(0) else 'lone surrogate'}" in message
    assert "unicode.repair" in message


@pytest.mark.parametrize(
    ("ending", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)]
)
@pytest.mark.parametrize("damage", ["cut", "junk"])
def test_damaged_compressed_files(build, tmp_path: Path, ending: str, compress, damage: str) -> None:
    path = tmp_path / f"notes.jsonl{ending}"
    data = compress(b"\n".join([GOOD] * 2000 + [os.urandom(50).hex().encode()]))
    path.write_bytes(data[: len(data) // 2] if damage == "cut" else b"no such format " + GOOD)
    message = _refused(build, path, strict=True)
    assert message.startswith(f"{path}:")
    assert "the compressed file is damaged or truncated" in message


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"txt": [NOTE]}, "no column 'text'"),
        ({"text": [1]}, "holds int64, not strings"),
        (None, "not a valid Parquet file"),
    ],
)
def test_bad_parquet(build, tmp_path: Path, table: dict[str, list[object]] | None, problem: str) -> None:
    path = tmp_path / "notes.parquet"
    if table is None:
        path.write_bytes(GOOD)
    else:
        pq.write_table(pa.table(table), path)
    assert problem in _refused(build, path)


@pytest.mark.parametrize("column", ["text", "id"])
def test_parquet_strings_that_are_not_utf8(build, tmp_path: Path, column: str) -> None:
    offsets, data = pa.py_buffer(b"\x00\x00\x00\x00\x02\x00\x00\x00"), pa.py_buffer(b"\xf3n")
    broken = pa.Array.from_buffers(pa.string(), 1, [None, offsets, data])
    pq.write_table(pa.table({"text": [NOTE], "id": ["1"], column: broken}), tmp_path / "notes.parquet")
    message = _refused(build, tmp_path / "notes.parquet")
    assert "a text or an id in rows 1 to 1 is not valid UTF-8" in message


def test_an_empty_corpus_says_why_it_is_empty(build, jsonl, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_bytes(b"\n\n")
    assert "the input has no documents" in _refused(build, empty)
    message = _refused(build, jsonl([CANARY, ""]))
    assert "all 2 documents were removed: empty (1), length.min_characters (1)" in message
    assert not (tmp_path / "corpus-0").exists()
    assert not (tmp_path / "corpus-1").exists()


def test_a_failed_run_leaves_the_earlier_corpus_alone(build, tmp_path: Path) -> None:
    path, out = tmp_path / "notes.jsonl", tmp_path / "corpus"
    path.write_bytes(GOOD)
    before = build(path, out=out)
    path.write_bytes(b"{}")
    _refused(build, path, out=out, force=True)
    before.verify()


def test_output_below_a_file(build, jsonl, tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    message = _refused(build, jsonl([NOTE]), out=blocker / "corpus")
    assert "cannot write" in message


def test_output_that_may_not_be_written(build, jsonl, tmp_path: Path, monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = jsonl([NOTE])
    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(OutputError, match="permission denied"):
        build(path, out=tmp_path / "corpus")
    assert not (tmp_path / "corpus").exists()


def test_an_unreadable_input_is_not_reported_as_an_output_error(build, jsonl, monkeypatch) -> None:
    path = jsonl([NOTE])

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("osler.stages.corpus.inputs.open_bytes", refuse)
    with pytest.raises(InputError, match=r"notes\.jsonl: cannot be read: Permission denied"):
        build(path)


FULL_DISK = """
import sys
from pathlib import Path
from osler.core.config import load_recipe
from osler.core.errors import OslerError
from osler.stages.corpus import clean as parts
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.run import run

parts.PART_BYTES = 200_000
recipe = load_recipe(CorpusRecipe, None, [], {"sources": [sys.argv[1]], "workers": int(sys.argv[3]), "shard_megabytes": 1})
try:
    run(recipe, Path(sys.argv[2]), force=True)
except OslerError as error:
    print(type(error).__name__, error)
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize(("limit", "shards_begun", "workers"), [(100_000, False, 2), (300_000, True, 1)])
def test_a_full_disk(build, tmp_path: Path, limit: int, shards_begun: bool, workers: int) -> None:
    """No file can grow past the limit: at the first a part does not fit, at the second the parts do and a shard does not."""
    path, out = tmp_path / "notes.jsonl", tmp_path / "corpus"
    path.write_bytes(GOOD)
    before = build(path, out=out)
    path.write_text("".join(json.dumps({"text": NOTE + os.urandom(1500).hex()}) + "\n" for _ in range(1000)))
    command = [sys.executable, "-c", FULL_DISK, str(path), str(out), str(workers)]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert ended.returncode == 2, ended.stderr
    assert ended.stdout.startswith("OutputError ")
    assert "size limit" in ended.stdout
    assert CANARY not in ended.stdout + ended.stderr
    before.verify()
    partial = tmp_path / "corpus.partial"
    assert not (partial / "manifest.json").exists()
    assert (partial / "shards").exists() == shards_begun
    assert list((partial / "shards").glob("*")) == []


def test_nothing_is_logged_but_numbers(build, jsonl, caplog: pytest.LogCaptureFixture, capfd) -> None:
    caplog.set_level(logging.DEBUG, logger="osler")
    corpus = build(jsonl([{"id": CANARY, "text": NOTE}, {"id": CANARY, "text": NOTE}]))
    assert "corpus.done" in caplog.text
    captured = capfd.readouterr()
    assert CANARY not in caplog.text + captured.out + captured.err
    for name in ("manifest.json", "card.json", "README.md"):
        assert CANARY not in (corpus.path / name).read_text()
