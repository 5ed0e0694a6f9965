from __future__ import annotations

import pytest

from osler.core.config import load_recipe
from osler.core.errors import RecipeError, UnknownNameError
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.documents import Candidate
from osler.stages.corpus.filters.length import Length


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
    assert Length(**options).reason(Candidate(text, len(text.split()), None)) == reason


def _recipe(**filters: object) -> CorpusRecipe:
    return load_recipe(CorpusRecipe, None, [], {"sources": ["notes.txt"], "filters": filters})


def test_options_reach_the_filter_and_survive_a_round_trip() -> None:
    recipe = _recipe(length={"min_words": 7})
    again = CorpusRecipe.model_validate(recipe.resolved())
    assert recipe.filters["length"] == again.filters["length"] == Length(min_words=7)
    assert recipe.identity() != _recipe(length={"min_words": 8}).identity()


def test_mistakes_name_the_right_option() -> None:
    with pytest.raises(RecipeError, match=r"filters.length: unknown key 'min_word'; did you mean 'min_words'"):
        _recipe(length={"min_word": 3})
    with pytest.raises(RecipeError, match=r"max_words \(2\) is below min_words \(3\)"):
        _recipe(length={"min_words": 3, "max_words": 2})
    with pytest.raises(UnknownNameError, match="Did you mean 'length'"):
        _recipe(lenght={})
