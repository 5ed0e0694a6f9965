"""Tables: named columns, delimiters and encodings."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from osler.core.errors import InputError
from osler.stages.corpus.documents import RawDocument

ReadAll = Callable[..., list[Any]]


def written(rows: list[list[str]], **style: Any) -> bytes:
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\n", **style).writerows(rows)
    return stream.getvalue().encode()


def test_columns_for_text_id_and_facts(tmp_path: Path, read_all: ReadAll) -> None:
    path = tmp_path / "notes.csv"
    path.write_bytes(
        b"\xef\xbb\xbf"
        + written(
            [
                ["note", "patient no", "history", "plan", "day"],
                ["n1", " 17 ", 'He said "no".\nThen, "yes".', "Rest", "2020-01-02"],
                [],
                ["n2", "", "Well", "", ""],
            ]
        )
    )
    options: dict[str, Any] = {
        "text_fields": ["history", "plan"],
        "id_field": "note",
        "facts": {"patient": "patient no", "date": "day"},
    }
    assert read_all(path, **options) == [
        RawDocument(2, 'He said "no".\nThen, "yes".\n\nRest', "n1", {"patient": "17", "date": "2020-01-02"}),
        RawDocument(5, "Well", "n2", {}),
    ]
    with pytest.raises(InputError, match=r"notes\.csv: none of its 5 columns is called 'text'\. Give the names"):
        read_all(path)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_seen_in_the_first_line(tmp_path: Path, read_all: ReadAll, delimiter: str) -> None:
    path = tmp_path / "notes.tsv"
    path.write_bytes(written([["id", "text", "x"], ["1", "a,b;c\td|e", ""]], delimiter=delimiter))
    assert read_all(path) == [RawDocument(2, "a,b;c\td|e", "1")]


def test_other_ways_to_write_a_table(tmp_path: Path, read_all: ReadAll) -> None:
    path = tmp_path / "notes.tsv"
    path.write_bytes(b'1\t5" needle\n2\t"bare\n')
    named = {"quote": "", "columns": ["id", "text"], "delimiter": "\t"}
    expected = [RawDocument(1, '5" needle', "1"), RawDocument(2, '"bare', "2")]
    assert read_all(path, reader="table", options=named) == expected
    assert read_all(path, size=1, reader="table", options=named) == expected
    path.write_bytes(b'id,text\n1,"say \\"a\nb\\", now"\n')
    assert read_all(path, size=1, reader="table", options={"escape": "\\"}) == [RawDocument(2, 'say "a\nb", now', "1")]


def test_encodings_and_nul_characters(tmp_path: Path, read_all: ReadAll) -> None:
    path = tmp_path / "notes.csv"
    text = 'id;text\n1;"exploración\nfísica"\n2;nada\n'
    for encoding in ("cp1252", "utf-16", "utf-8-sig"):
        path.write_bytes(text.encode(encoding))
        documents = [RawDocument(2, "exploración\nfísica", "1"), RawDocument(4, "nada", "2")]
        assert read_all(path, encoding=encoding) == documents
    path.write_bytes(b"id,text\n1,a\x00b\n2,sol\xf3\n3,s\xc3\xb3lo\n")
    first, bad, last = read_all(path)
    assert (first, last) == (RawDocument(2, "a\0b", "1"), RawDocument(4, "sólo", "3"))
    assert (bad.row, bad.byte, bad.reason) == (3, 14, "a cell is not valid in the encoding of the source")


def test_compressed_and_empty_tables(tmp_path: Path, read_all: ReadAll) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b'id,text\n1,"a\n' + b"b" * 1000 + b'"\n2,c\n'))
    assert [item.row for item in read_all(tmp_path / "a.csv.gz", size=10)] == [2, 4]
    (tmp_path / "b.csv").write_bytes(b"")
    (tmp_path / "c.csv").write_bytes(b"id,text\n")
    assert read_all(tmp_path / "b.csv") == read_all(tmp_path / "c.csv") == []
