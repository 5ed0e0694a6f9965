"""Tables: an error about columns lists those there are, unless the first line may be data."""

from __future__ import annotations

from pathlib import Path

import pytest

from osler.core.errors import InputError
from osler.formats.base import configure
from osler.formats.registry import get_format


def failure(tmp_path: Path, content: str, **options: str) -> str:
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(InputError) as caught:
        list(configure(get_format("csv"), options).read(tmp_path / "t.csv"))
    return str(caught.value)


def test_a_wrong_column_lists_the_columns(tmp_path: Path) -> None:
    message = failure(tmp_path, "Patient note,text,outcome\na,b,c\n", label="diagnosis")
    assert "t.csv:1: no column 'diagnosis'." in message
    assert "--set read.label=NAME" in message
    assert "Columns: Patient note, text, outcome." in message


def test_a_table_without_texts_lists_the_columns(tmp_path: Path) -> None:
    message = failure(tmp_path, "body,outcome\na,b\n")
    assert "no column with texts" in message
    assert "--set options.text=NAME" in message
    assert "Columns: body, outcome." in message


def test_a_first_line_that_may_be_data_is_not_quoted(tmp_path: Path) -> None:
    message = failure(tmp_path, "1,Jane CANARY has a cough\n2,x\n", label="diagnosis")
    assert "CANARY" not in message
    assert "the option columns" in message


def test_data_beside_a_usual_name_is_not_quoted(tmp_path: Path) -> None:
    message = failure(tmp_path, "id,Jane CANARY has had a cough\n2,x\n", label="diagnosis")
    assert "CANARY" not in message
