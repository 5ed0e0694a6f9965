"""Tables of entities: one row per mention, columns for what differs from record to record, and nothing lost but the text."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from osler.core.errors import RecipeError
from osler.formats.base import configure
from osler.formats.registry import get_format
from osler.text.document import Document, Relation, Span, TextPair

TEXT = 'Aspirin,\n"81" mg 😀 left and right knee'
NOTES = [
    Document(
        "a/1",
        TEXT,
        (
            Span.at(0, 7, "Drug", id="T1", score=0.98, attributes={"head": "drugs", "negated": "yes"}),
            Span.at(8, 17, "Dose", id="T2", attributes={"head": "drugs", "text": "own"}),
            Span(((19, 23), (34, 38)), "Site", "T3", 0.5),
        ),
        (Relation("dose-of", "T2", "T1", "R1", 0.7, {"sure": "yes"}),),
        ("ward:ED",),
        1.5,
        {"patient": "7", "value": "mine"},
        {"ward:ED": 0.9, "ward:ICU": 0.1},
    ),
    Document("b", "No drug."),
    TextPair("p", "He rests.", "He runs.", labels=("nli:no",), scores={"nli:no": 0.8}),
]


def tables(folder: Path, records=NOTES, **options) -> dict[str, list[dict[str, str]]]:
    loss = configure(get_format("entities_csv"), options).write(records, folder)
    assert loss.counts == ({} if options.get("texts") or not records else {"texts": len(records)})
    found = {}
    for path in sorted(folder.iterdir()):
        with open(path, encoding="utf-8", newline="") as stream:
            found[path.stem] = list(csv.DictReader(stream))
    return found


def test_one_row_per_entity_with_attributes_as_columns(tmp_path):
    found = tables(tmp_path / "out")
    assert found.keys() == {"documents", "entities", "relations", "labels"}
    first, second, third = found["entities"]
    assert first == {
        "document": "a/1",
        "id": "T1",
        "start": "0",
        "end": "7",
        "text": "Aspirin",
        "label": "Drug",
        "score": "0.98",
        "fragments": "",
        "head": "drugs",
        "negated": "yes",
        "attribute_text": "",
    }
    assert second["text"] == TEXT[8:17] == '\n"81" mg '
    assert (second["attribute_text"], second["score"]) == ("own", "")
    assert (third["fragments"], third["text"]) == ("19 23;34 38", "left knee")
    for row in found["entities"][:2]:
        assert TEXT[int(row["start"]) : int(row["end"])] == row["text"]


def test_relations_labels_and_documents_have_tables_of_their_own(tmp_path):
    found = tables(tmp_path / "out")
    [relation] = found["relations"]
    assert (relation["head"], relation["tail"], relation["score"], relation["sure"]) == ("T2", "T1", "0.7", "yes")
    assert [(row["document"], row["label"], row["assigned"], row["score"]) for row in found["labels"]] == [
        ("a/1", "ward:ED", "true", "0.9"),
        ("a/1", "ward:ICU", "false", "0.1"),
        ("p", "nli:no", "true", "0.8"),
    ]
    documents = found["documents"]
    assert [row["document"] for row in documents] == ["a/1", "b", "p"]
    assert (documents[0]["value"], documents[0]["patient"], documents[0]["meta_value"]) == ("1.5", "7", "mine")
    assert "text" not in documents[0]
    assert tables(tmp_path / "with", texts=True)["documents"][0]["text"] == TEXT


def test_a_carriage_return_or_a_taken_column_name_moves_no_cell(tmp_path):
    text = "Breast\rcancer"
    meta = {"value": "a", "meta_value": "b", "title": "one\rtwo"}
    note = Document("a\rb", text, (Span.at(0, len(text), "Disease", id="T1", attributes={"head": "h"}),), meta=meta)
    loss = configure(get_format("entities_csv"), {}).write([note], tmp_path / "out")
    assert loss.counts == {"texts": 1}
    found = {}
    for name in ("entities", "documents"):
        with open(tmp_path / "out" / f"{name}.csv", encoding="utf-8", newline="") as stream:
            [found[name]] = csv.DictReader(stream, strict=True)
    assert [found["entities"][name] for name in ("document", "text", "head")] == ["a\rb", text, "h"]
    columns = ("document", "meta_value", "meta_meta_value", "title")
    assert [found["documents"][name] for name in columns] == ["a\rb", "b", "a", "one\rtwo"]


def test_tables_without_rows_have_a_header(tmp_path):
    assert tables(tmp_path / "out", [])["entities"] == []
    assert (tmp_path / "out" / "entities.csv").read_text().startswith("document,id,start,end,text,label,score")


def test_parquet_has_the_same_rows_with_types(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = tables(tmp_path / "csv")
    get_format("entities_parquet").write(NOTES, tmp_path / "parquet")
    again = tmp_path / "again"
    get_format("entities_parquet").write(NOTES, again)
    for name, expected in rows.items():
        table = parquet.read_table(tmp_path / "parquet" / f"{name}.parquet")
        assert (again / f"{name}.parquet").read_bytes() == (tmp_path / "parquet" / f"{name}.parquet").read_bytes()
        shown = {True: "true", False: "false", None: ""}
        texts = [
            {k: shown[v] if v is None or v is True or v is False else str(v) for k, v in r.items()}
            for r in table.to_pylist()
        ]
        assert texts == expected
    entities = parquet.read_table(tmp_path / "parquet" / "entities.parquet")
    assert [str(entities.schema.field(name).type) for name in ("start", "score", "text")] == [
        "int64",
        "double",
        "string",
    ]


def test_it_is_not_read(tmp_path):
    tables(tmp_path / "out")
    with pytest.raises(RecipeError, match="osler writes entities_csv, but does not read it"):
        list(get_format("entities_csv").read(tmp_path / "out"))
    assert get_format("entities_csv").detect(tmp_path / "out")
