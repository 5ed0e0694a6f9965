from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from osler.core.artifact import Artifact
from osler.core.config import find_recipe, load_recipe
from osler.core.errors import OutputError
from osler.stages.corpus import clean as parts
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.run import plan

TEXT = "The patient was seen in clinic and reports no new symptoms, number "


def _card(corpus: Artifact) -> dict[str, Any]:
    return json.loads((corpus.path / "card.json").read_text())


def test_the_first_copy_is_kept_across_sources(build, jsonl, documents, ledger) -> None:
    one = jsonl([{"id": "a1", "text": TEXT + "1"}, {"id": "a2", "text": TEXT + "2"}], "one.jsonl")
    two = jsonl(
        [{"id": "b2", "text": TEXT + "2"}, {"id": "b3", "text": TEXT + "3\n"}, {"id": "b1", "text": TEXT + "3"}],
        "two.jsonl",
    )
    corpus = build(one, two)
    assert [row["id"] for row in documents(corpus)] == ["a1", "a2", "b3"]
    removed = {
        "source": "two",
        "file": "two.jsonl",
        "byte": None,
        "step": "exact-duplicates",
        "jaccard": None,
        "share": None,
    }
    removed |= {"reason": "duplicate.exact", "unit": "document", "characters": len(TEXT) + 1}
    assert ledger(corpus) == [
        {**removed, "row": 1, "id": "b2", "kept_id": "a2", "kept_source": "one"},
        {**removed, "row": 3, "id": "b1", "kept_id": "b3", "kept_source": "two"},
    ]
    assert [row["id"] for row in documents(build(two, one))] == ["b2", "b3", "a1"]
    assert len(documents(build(one, two, exact_duplicates="keep"))) == 5


def test_every_document_is_kept_or_in_the_ledger_with_a_reason(build, jsonl, documents, ledger) -> None:
    rows = ["", " \n ", "short", TEXT, TEXT + "1", TEXT, "\x00\x00"]
    corpus = build(jsonl(rows), filters={"length": {"min_words": 2}})
    reasons = {row["row"]: row["reason"] for row in ledger(corpus) if row["unit"] == "document"}
    assert reasons == {1: "empty", 2: "empty", 3: "length.min_characters", 6: "duplicate.exact", 7: "empty"}
    assert [row["id"] for row in documents(corpus)] == ["notes.jsonl:4", "notes.jsonl:5"]


def test_a_filter_that_is_off_is_off(build, jsonl, documents) -> None:
    assert len(documents(build(jsonl(["short", TEXT]), filters={}))) == 2


def test_text_is_repaired_before_it_is_compared(build, jsonl, documents) -> None:
    corpus = build(jsonl([TEXT + "perdida de visi\u00f3n", TEXT + "perdida de visi\u00c3\u00b3n"]))
    assert [row["text"] for row in documents(corpus)] == [TEXT + "perdida de visión"]


def test_the_card_adds_up(build, jsonl, tmp_path: Path) -> None:
    notes = tmp_path / "ward"
    notes.mkdir()
    for number in range(4):
        (notes / f"{number}.txt").write_text(TEXT + str(number % 3))
    corpus = build(
        jsonl([TEXT + "&amp; more", "no"], "web.jsonl"),
        {"files": [str(notes)], "language": "en", "licence": "none given", "name": "ward-7"},
    )
    card = _card(corpus)
    assert card["documents"] == 4
    assert card["removed"] == {"duplicate.exact": 1, "length.min_characters": 1}
    assert card["read"] == card["documents"] + sum(card["removed"].values()) == 6
    for key in ("read", "documents", "characters", "words", "bytes", "repaired"):
        assert card[key] == sum(facts[key] for facts in card["sources"].values())
    assert card["sources"]["web"]["repaired"] == 1
    assert card["sources"]["ward-7"]["language"] == "en"
    assert sum(card["words_per_document"].values()) == card["documents"]
    assert card["words_per_document"] == {"8": 4}
    assert corpus.manifest.counts["documents"] == 4
    readme = (corpus.path / "README.md").read_text()
    assert "| ward-7 | 4 | 3 |" in readme
    assert "| ward-7 | en | none given |" in readme
    assert "| duplicate.exact | 1 |" in readme


def test_columns_of_the_shards(build, jsonl, documents) -> None:
    corpus = build({"files": str(jsonl([{"id": "x", "text": TEXT}])), "language": "es"})
    row = {"id": "x", "text": TEXT.strip(), "source": "notes", "language": "es"}
    facts = dict.fromkeys(("title", "section", "date", "licence", "patient", "density"))
    assert documents(corpus) == [row | facts | {"file": "notes.jsonl", "row": 1}]


def _varied(folder: Path, count: int = 240) -> list[Path]:
    """The same kinds of documents in five kinds of file, with copies and scraps among them."""
    folder.mkdir(parents=True)
    texts = []
    for number in range(count):
        kind = number % 100
        texts.append(f"{TEXT}{kind} " + "más datos — 5 µg " * (kind % 7) if kind % 11 else "scrap")
    (folder / "a.jsonl").write_text("".join(json.dumps({"id": n, "text": t}) + "\n" for n, t in enumerate(texts[:120])))
    (folder / "b.txt").write_text("\n".join(text.replace("\n", " ") for text in texts[120:180]))
    pq.write_table(pa.table({"text": texts[180:]}), folder / "c.parquet", row_group_size=7)
    return [folder / name for name in ("a.jsonl", "b.txt", "c.parquet")]


def _files(corpus: Artifact) -> dict[str, str]:
    return corpus.manifest.files


def test_same_bytes_for_any_division_of_the_work(build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = _varied(tmp_path / "raw")
    sources = [str(a), {"files": str(b), "unit": "line"}, str(c)]
    whole = build(*sources)
    assert sorted(_card(whole)["removed"]) == ["duplicate.exact", "length.min_characters"]
    monkeypatch.setattr(parts, "PART_BYTES", 4000)
    assert _files(build(*sources)) == _files(whole)
    assert _files(build(*sources, workers=2)) == _files(whole)
    elsewhere = _varied(tmp_path / "elsewhere" / "raw")
    moved = build(str(elsewhere[0]), {"files": str(elsewhere[1]), "unit": "line"}, str(elsewhere[2]))
    assert moved.manifest.digest == whole.manifest.digest


def test_shards_and_row_groups_hold_about_what_was_asked(
    build, jsonl, documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("osler.artifacts.corpus.ROW_GROUP_BYTES", 100_000)
    texts = [f"{n} " + "word " * 4000 for n in range(140)]
    corpus = build(jsonl(texts), shard_megabytes=1)
    shards = sorted((corpus.path / "shards").iterdir())
    assert [shard.name for shard in shards] == [f"shard-0000{n}.parquet" for n in range(3)]
    assert [pq.ParquetFile(shard).num_row_groups for shard in shards] == [10, 10, 8]
    assert [row["text"] for row in documents(corpus)] == [text.strip() for text in texts]


def test_a_second_run_reuses_and_another_recipe_is_refused(build, jsonl, tmp_path: Path) -> None:
    path, out = jsonl([TEXT]), tmp_path / "corpus"
    first = build(path, out=out)
    assert not first.reused
    assert build(path, out=out, workers=2).reused
    assert build(path, out=out, engine="ray").reused
    with pytest.raises(OutputError, match="--force"):
        build(path, out=out, filters={})
    assert build(path, out=out, filters={}, force=True).manifest.digest != first.manifest.digest
    jsonl([TEXT, TEXT + "new"])
    with pytest.raises(OutputError, match="other inputs"):
        build(path, out=out)


def test_plan_says_what_will_happen_and_does_nothing(jsonl, tmp_path: Path) -> None:
    recipe = load_recipe(CorpusRecipe, None, [], {"sources": [str(jsonl([TEXT]))]})
    lines = "\n".join(plan(recipe, tmp_path / "out"))
    for word in ("read 1 file (", "notes (1)", "length", "Exact duplicates", str(tmp_path / "out")):
        assert word in lines
    assert not (tmp_path / "out").exists()


def test_the_demo_recipe_is_valid(jsonl) -> None:
    recipe = load_recipe(CorpusRecipe, find_recipe("demo/corpus"), [], {"sources": [str(jsonl([TEXT]))]})
    assert recipe.exact_duplicates == "remove"
