"""Facts of documents, options of readers, rewriters, licences and the priority of sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from osler.core.config import Recipe, load_recipe
from osler.core.errors import RecipeError
from osler.stages.corpus.config import CorpusRecipe, CorpusSource
from osler.stages.corpus.documents import FileRange, InputFile, RawDocument
from osler.stages.corpus.readers import READERS
from osler.stages.corpus.rewriters import REWRITERS, Removal, Rewriter, Rewritten

TEXT = "The patient was seen in clinic and reports no new symptoms, number "
COLUMNS = {"title": "head", "patient": "subject", "licence": "rights", "language": "lang", "date": "when"}


class CountedOptions(Recipe):
    copies: int = 1


class CountedReader:
    endings = (".counted",)
    options = CountedOptions

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FileRange]:
        return [FileRange(file, 0, file.size)]

    def read(self, file_range: FileRange, source: CorpusSource) -> Iterator[RawDocument]:
        assert isinstance(source.options, CountedOptions)
        for row in range(source.options.copies):
            yield RawDocument(row + 1, f"{TEXT}{row}")


class DropLines(Rewriter):
    beginning: str

    def rewrite(self, text: str, language: str | None) -> Rewritten:
        gone = [line for line in text.split("\n") if line.startswith(self.beginning)]
        rest = [line for line in text.split("\n") if not line.startswith(self.beginning)]
        return Rewritten("\n".join(rest), tuple(Removal("beginning", len(line)) for line in gone))


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS._builtin, "counted", "")
    monkeypatch.setitem(READERS._objects, "counted", CountedReader())
    monkeypatch.setitem(REWRITERS._objects, "drop", DropLines)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_facts_are_columns_of_the_corpus(build, jsonl, tmp_path: Path, documents, kind: str) -> None:
    rows = [
        {"text": TEXT + "1", "head": "Note", "subject": 17, "rights": "CC0", "lang": "en", "when": "2020-01-02"},
        {"text": TEXT + "2", "head": "", "subject": None, "rights": None, "lang": None, "when": None},
    ]
    path = jsonl(rows)
    if kind == "parquet":
        path = tmp_path / "notes.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path)
    corpus = build({"files": str(path), "facts": COLUMNS, "licence": "own", "language": "es"})
    names = ("title", "section", "date", "licence", "patient", "language")
    facts = [[row[name] for name in names] for row in documents(corpus)]
    assert facts == [["Note", None, "2020-01-02", "CC0", "17", "en"], [None, None, None, "own", None, "es"]]
    assert corpus.card.licences == {"CC0": 1, "own": 1}
    assert corpus.card.sources["notes"].languages == {"en": 1, "es": 1}


def test_unknown_facts_are_refused(build, jsonl) -> None:
    with pytest.raises(RecipeError, match="'ward' is not one of the facts: title"):
        build({"files": str(jsonl([TEXT])), "facts": {"ward": "w"}})


def test_only_documents_with_a_listed_licence_are_kept(build, jsonl, documents, ledger) -> None:
    rows = [{"text": f"{TEXT}{n}", "rights": licence} for n, licence in enumerate(["CC BY 4.0", "CC BY-NC", None])]
    source = {"files": str(jsonl(rows)), "facts": {"licence": "rights"}}
    corpus = build(source, licences=["cc by 4*", "CC0"])
    assert [row["licence"] for row in documents(corpus)] == ["CC BY 4.0"]
    assert [(row["step"], row["reason"]) for row in ledger(corpus)] == [
        ("licence", "licences"),
        ("licence", "licences.unknown"),
    ]


@pytest.mark.usefixtures("registered")
def test_a_reader_has_options_of_its_own(build, tmp_path: Path, documents) -> None:
    path = tmp_path / "notes.counted"
    path.write_text("")
    assert len(documents(build(path))) == 1
    assert len(documents(build({"files": str(path), "reader": "counted", "options": {"copies": 3}}))) == 3
    with pytest.raises(RecipeError, match=r"sources\.options.*unknown key 'copy', did you mean 'copies'"):
        build({"files": str(path), "reader": "counted", "options": {"copy": 3}})
    with pytest.raises(RecipeError, match="name it: reader = "):
        build({"files": str(path), "options": {"copies": 3}})
    with pytest.raises(RecipeError, match="the reader 'text' has no options"):
        build({"files": str(path), "reader": "text", "options": {"copies": 3}})


@pytest.mark.usefixtures("registered")
def test_rewriters_run_before_filters_and_their_removals_are_in_the_ledger(build, jsonl, documents, ledger) -> None:
    rows = [f"{TEXT}1\nPage 3", "Page 1\nPage 2 is long enough to be kept by itself, but it goes", TEXT + "2"]
    options = {"drop": {"beginning": "Page"}}
    corpus = build(jsonl(rows), rewrite=options)
    assert [row["text"] for row in documents(corpus)] == [TEXT + "1", TEXT + "2"]
    found = [(row["row"], row["step"], row["reason"], row["unit"], row["characters"]) for row in ledger(corpus)]
    assert found == [
        (1, "rewrite", "drop.beginning", "passage", 6),
        (1, "rewrite", "drop", "document changed", len(TEXT) + 1),
        (2, "rewrite", "drop.beginning", "passage", 6),
        (2, "rewrite", "drop.beginning", "passage", 55),
        (2, "rewrite", "drop", "document changed", 0),
        (2, "filter", "empty", "document", 0),
    ]
    own = build({"files": str(jsonl(rows)), "clean": {"rewrite": {}}}, rewrite=options)
    assert len(documents(own)) == 3
    assert own.manifest.identity != corpus.manifest.identity


def test_the_source_of_highest_priority_keeps_its_copy(build, jsonl, documents, ledger) -> None:
    sources = [jsonl([TEXT], f"{name}.jsonl") for name in ("web", "pubmed", "books")]
    corpus = build(*sources, priority=["books"])
    assert [row["source"] for row in documents(corpus)] == ["books"]
    assert [(row["source"], row["kept_source"]) for row in ledger(corpus)] == [("web", "books"), ("pubmed", "books")]
    with pytest.raises(RecipeError, match=r"no source is called 'book'.*Did you mean 'books'"):
        build(*sources, priority=["book"])


def test_settings_that_are_off_are_no_part_of_the_identity() -> None:
    before = CorpusRecipe(sources=[{"files": ["x"], "clean": "none"}])
    off = CorpusRecipe(sources=[{"files": ["x"], "clean": {**before.sources[0].clean.resolved(), "rewrite": {}}}])
    assert before.identity() == off.identity()
    assert set(before.identity()["sources"][0]["clean"]) == {"unicode", "filters", "exact_duplicates", "strip"}


def test_a_recipe_survives_its_own_toml(tmp_path: Path) -> None:
    recipe = CorpusRecipe(sources=[{"files": ["x"], "clean": "none", "facts": {"patient": "p"}}], boilerplate={})
    (tmp_path / "recipe.toml").write_text(recipe.to_toml())
    assert load_recipe(CorpusRecipe, tmp_path / "recipe.toml") == recipe
