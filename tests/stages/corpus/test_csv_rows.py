"""Rows of tables: damaged rows cost themselves only, and ranges begin where rows begin."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from osler.stages.corpus.documents import BadRecord, RawDocument

ReadAll = Callable[..., list[Any]]


def written(rows: list[list[str]], **style: Any) -> bytes:
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\n", **style).writerows(rows)
    return stream.getvalue().encode()


def test_reading_goes_on_after_a_damaged_row(tmp_path: Path, read_all: ReadAll) -> None:
    path = tmp_path / "notes.csv"
    rows = [
        b'id,kind,text\n1,a,"one\nmore"\n',
        b'2,b,"he said "no" to it,\nand left, twice, then\nthis, that, end"\n',  # its quotes are not doubled
        b'3,c,"three"\n',
        b"4,d\n",  # too short
        b'5,e,"never closed\n',
        b'6,f,"six"\n7,g,seven\n',
    ]
    path.write_bytes(b"".join(rows))
    found = read_all(path)
    assert [(item.row, item.text) for item in found if isinstance(item, RawDocument)] == [
        (2, "one\nmore"),
        (7, "three"),
        (10, "six"),
        (11, "seven"),
    ]
    bad = [item for item in found if isinstance(item, BadRecord)]
    places = [rows[0], b"".join(rows[:3]), b"".join(rows[:4])]
    assert [(item.row, item.byte) for item in bad] == [(4, len(places[0])), (8, len(places[1])), (9, len(places[2]))]
    assert [item.reason for item in bad] == [
        "a quote in this row is missing or misplaced",
        "the row has 2 cells, not 3",
        "a quote in this row is missing or misplaced",
    ]


def test_a_quote_that_nothing_closes_costs_one_row(tmp_path: Path, read_all: ReadAll, monkeypatch) -> None:
    monkeypatch.setattr("osler.stages.corpus.csv_rows._LONGEST_ROW", 1000)
    path = tmp_path / "notes.csv"
    path.write_bytes(b'id,text\n0,"open\n' + b"".join(b"%d,note %d\n" % (n, n) for n in range(1, 1000)))
    found = read_all(path)
    assert [item.id for item in found[1:]] == [str(n) for n in range(1, 1000)]
    assert (found[0].row, found[0].byte) == (2, 8)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(st.text('ab,"\n é', max_size=9), min_size=3, max_size=3), max_size=10), st.integers(1, 60))
def test_ranges_read_every_row_once(read_all: ReadAll, tmp_path_factory, rows: list[list[str]], size: int) -> None:
    path = tmp_path_factory.mktemp("table") / "n.csv"
    path.write_bytes(written([["id", "text", "x"], *rows]))
    whole = read_all(path)
    assert read_all(path, size=size) == whole
    assert [item.text for item in whole] == [text for _, text, _ in rows]


def test_a_large_table_is_cut(tmp_path: Path, read_all: ReadAll, cuts: Callable[..., int]) -> None:
    path = tmp_path / "n.csv"
    text = 'line, one\n"two"\n' * 20
    path.write_bytes(written([["id", "text"], *([str(n), text] for n in range(200))]))
    assert cuts(path, 4096) > 10
    # A lone quote in an unquoted cell makes the quotes before a row odd: what follows stays one range.
    lone = b'id,text\n0,5" needle\n'
    path.write_bytes(lone + path.read_bytes().partition(b"\n")[2])
    assert cuts(path, 4096) == 1
    assert [item.id for item in read_all(path, size=4096)] == ["0", *map(str, range(200))]
