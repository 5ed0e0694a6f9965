from __future__ import annotations

from pathlib import Path

import pytest

from osler.core.config import load_recipe
from osler.core.errors import InputError, RecipeError, UnknownNameError
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.documents import RepairedDocument
from osler.stages.corpus.filters import FILTERS, Filter
from osler.stages.corpus.filters.length import Length
from osler.stages.corpus.filters.terms import Terms


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
    monkeypatch.setattr(FILTERS, "_objects", {**FILTERS._objects})
    FILTERS.register("no-digits", NoDigits)
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
