"""Patents: medical codes, languages and fields under other names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from osler.stages.corpus.documents import BadRecord, LeftOut, RawDocument

ReadAll = Callable[..., list[Any]]


def texts(**by_language: str) -> list[dict[str, str]]:
    return [{"text": text, "language": language} for language, text in by_language.items()]


GOOGLE = {
    "publication_number": "ES-1-A1",
    "publication_date": 20190305,
    "title_localized": texts(en="Stent", es="Endoprótesis"),
    "abstract_localized": texts(es="Una endoprótesis recubierta."),
    "description_localized": texts(es="Descripción larga de la invención."),
    "ipc": [{"code": "A61F2/06"}, {"code": "H01L"}],
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "patents.json"
    lines: list[Any] = [
        GOOGLE,
        GOOGLE | {"publication_number": "ES-2-A1", "ipc": [{"code": "H01L"}]},
        ["list"],
        {"a": 1},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "{broken\n")
    return path


def test_medical_patents_in_their_main_language(path: Path, read_all: ReadAll) -> None:
    found = read_all(path, reader="patents")
    text = "Endoprótesis\n\nUna endoprótesis recubierta.\n\nDescripción larga de la invención."
    facts = {"title": "Endoprótesis", "date": "2019-03-05", "language": "es"}
    assert found[:2] == [RawDocument(1, text, "ES-1-A1", facts), LeftOut(2, "patents.codes", "ES-2-A1")]
    assert [(item.row, item.reason) for item in found[2:] if isinstance(item, BadRecord)] == [
        (3, "the line does not hold an object"),
        (4, "none of these fields holds a text: title, abstract, description"),
        (5, "not valid JSON at column 2"),
    ]
    assert read_all(path, size=10, reader="patents") == found


def test_codes_and_language_are_chosen(path: Path, read_all: ReadAll) -> None:
    every = read_all(path, reader="patents", options={"codes": []})
    assert [item.id for item in every[:2]] == ["ES-1-A1", "ES-2-A1"]
    english = read_all(path, reader="patents", language="en")
    assert (english[0].text, english[0].facts["language"]) == ("Stent", "en")
    assert read_all(path, reader="patents", language="fr")[0] == LeftOut(1, "patents.language", "ES-1-A1")


def test_other_names_of_fields(tmp_path: Path, read_all: ReadAll) -> None:
    path = tmp_path / "uspto.jsonl"
    record = {"doc": 7, "name": "Mask", "claims": "What is claimed", "cpc_codes": "H01L; A61M 16/06", "day": "1999"}
    path.write_text(json.dumps(record | {"language": "en"}))
    options = {
        "parts": ["name", "claims"],
        "title_field": "name",
        "number_field": "doc",
        "date_field": "day",
        "code_fields": ["cpc_codes"],
    }
    facts = {"title": "Mask", "date": "1999", "language": "en"}
    assert read_all(path, reader="patents", options=options) == [RawDocument(1, "Mask\n\nWhat is claimed", "7", facts)]
