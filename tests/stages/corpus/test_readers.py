from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.core.errors import InputError, RecipeError
from osler.stages.corpus.config import CorpusRecipe, CorpusSource
from osler.stages.corpus.documents import RawDocument
from osler.stages.corpus.inputs import find_inputs
from osler.stages.corpus.readers import READERS


def read(path: Path, size: int = 1 << 30, **options: str) -> list[tuple[int, str | None, str]]:
    """Row, id and text of every document, read in pieces of about `size` bytes."""
    source = CorpusSource(files=[path], **options)
    [file] = find_inputs([source])
    reader = READERS.get(file.reader)
    found: list[RawDocument] = []
    for piece in reader.cut(file, source, size):
        found += reader.read(piece, source)
    return [(item.row, item.id, item.text) for item in found]


def test_text_with_one_document_per_file(tmp_path: Path) -> None:
    path = tmp_path / "n.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\r\ntwo\n")
    assert read(path) == [(1, "n.txt", "one\r\n\r\ntwo\n")]


def test_text_with_one_document_per_line_or_block(tmp_path: Path) -> None:
    path = tmp_path / "n.txt"
    path.write_text("\none\ntwo\n\n \nthree")
    assert read(path, unit="line") == [
        (1, None, ""),
        (2, None, "one"),
        (3, None, "two"),
        (4, None, ""),
        (5, None, " "),
        (6, None, "three"),
    ]
    assert read(path, unit="block") == [(2, None, "one\ntwo"), (6, None, "three")]


def test_text_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "n.txt"
    path.write_bytes("exploración".encode("cp1252"))
    assert read(path, encoding="cp1252")[0][2] == "exploración"
    path.write_bytes("exploración".encode("utf-16"))
    assert read(path, encoding="utf-16")[0][2] == "exploración"
    with pytest.raises(ValueError, match="is not supported with utf-16"):
        read(path, encoding="utf-16", unit="line")
    with pytest.raises(ValueError, match="unknown encoding 'latin-99'"):
        read(path, encoding="latin-99")


def test_jsonl_fields_ids_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "n.jsonl"
    path.write_text('{"id": 7, "text": "a"}\n\n{"text": null}\r\n{"id": "x", "text": "b\tc\\u0000", "more": [1]}')
    assert read(path) == [(1, "7", "a"), (3, None, ""), (4, "x", "b\tc\0")]
    path.write_text('{"note_id": "n1", "body": "a"}')
    assert read(path, text_field="body", id_field="note_id") == [(1, "n1", "a")]


@pytest.mark.parametrize(
    ("ending", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)]
)
def test_compressed_files_read_like_plain_ones(tmp_path: Path, ending: str, compress: Callable[[bytes], bytes]) -> None:
    data = b"".join(json.dumps({"text": f"note {n}"}).encode() + b"\n" for n in range(50))
    (tmp_path / "n.jsonl").write_bytes(data)
    (tmp_path / f"n.jsonl{ending}").write_bytes(compress(data))
    (tmp_path / f"m.txt{ending}").write_bytes(compress(b"whole"))
    assert read(tmp_path / f"n.jsonl{ending}", size=10) == read(tmp_path / "n.jsonl")
    assert read(tmp_path / f"m.txt{ending}")[0][2] == "whole"


def test_parquet_rows_over_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "n.parquet"
    table = pa.table({"other": list(range(10)), "id": list(range(100, 110)), "text": [*"abcdefghi", None]})
    pq.write_table(table, path, row_group_size=3)
    expected = [(row + 1, str(100 + row), text) for row, text in enumerate([*"abcdefghi", ""])]
    assert read(path) == read(path, size=1) == expected
    pq.write_table(table.drop(["id"]), path)
    assert read(path)[0] == (1, None, "a")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text("ab \u00e9", max_size=8), max_size=12), st.booleans(), st.integers(1, 40))
def test_ranges_cover_a_file_of_lines_exactly_once(
    tmp_path_factory: pytest.TempPathFactory, rows: list[str], final_newline: bool, size: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "n.txt"
    path.write_text("\n".join(rows) + ("\n" if final_newline and rows else ""))
    whole = read(path, unit="line")
    assert read(path, size=size, unit="line") == whole
    assert (
        [text for _, _, text in whole] == path.read_text().removesuffix("\n").split("\n")
        if path.read_text()
        else not whole
    )


def test_an_unknown_field_in_a_source_is_refused() -> None:
    from osler.core.config import load_recipe

    with pytest.raises(RecipeError, match=r"did you mean 'sources.0.text_field'"):
        load_recipe(CorpusRecipe, None, [], {"sources": [{"files": "a.txt", "text_feild": "x"}]})


def test_several_fields_with_text_and_facts(tmp_path: Path, read_all: Callable[..., list[RawDocument]]) -> None:
    rows = [{"id": "1", "a": "one", "b": "two", "who": 7}, {"id": "2", "a": None, "b": "two", "who": None}]
    (tmp_path / "n.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "n.parquet")
    (tmp_path / "n.csv").write_text("id,a,b,who\n1,one,two,7\n2,,two,\n")
    texts = [("one\n\ntwo", {"patient": "7"}), ("two", {})]
    for name in ("n.jsonl", "n.parquet", "n.csv"):
        found = read_all(tmp_path / name, text_fields=["a", "b"], facts={"patient": "who"})
        assert [(item.text, item.facts) for item in found] == texts


@pytest.mark.parametrize("unit", ["file", "block"])
def test_a_document_of_text_has_a_limit(tmp_path: Path, read_all, monkeypatch, unit: str) -> None:
    for module in ("inputs", "readers.text"):
        monkeypatch.setattr(f"osler.stages.corpus.{module}.LONGEST", 4)
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf1")
    assert [document.text for document in read_all(tmp_path, unit=unit)] == ["1"]
    (tmp_path / "a.txt").write_text("123\n456\n")
    with pytest.raises(InputError, match="a document of more than 0 MB"):
        read_all(tmp_path, unit=unit)
