"""What all formats share: the collector of defects, and options."""

from __future__ import annotations

from typing import Any

import pytest

from osler.core.errors import RecipeError
from osler.formats.base import Problems, configure
from osler.formats.registry import get_format


def test_the_first_defect_of_each_kind_is_kept_however_many_of_another_came_before() -> None:
    problems = Problems(keep=3)
    for number in range(5):
        problems.report("bad-span", "x", where=f"a:{number}")
    problems.report("missing-text", "x", where="b:1")
    problems.report("missing-text", "x", where="b:2")
    assert [problem.where for problem in problems.examples] == ["a:0", "a:1", "a:2", "b:1"]
    assert problems.counts == {"bad-span": 5, "missing-text": 2}


@pytest.mark.parametrize("given", ["id,text,label", "id, text, label", ["id", "text", "label"]])
def test_a_list_of_names_is_a_list_or_names_with_commas(given: Any) -> None:
    assert configure(get_format("tsv"), {"columns": given}).columns == ("id", "text", "label")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "option", "value", "message"),
    [
        ("tsv", "columns", 3, "a list of names, such as columns=a,b,c"),
        ("tsv", "separator", True, "a name"),
        ("conll", "scheme", "BILOU", "one of: BIO, BIOES"),
        ("mimic", "errors", "yes", "true or false"),
    ],
)
def test_an_option_of_the_wrong_type_is_explained(name: str, option: str, value: Any, message: str) -> None:
    with pytest.raises(RecipeError, match=f"the option '{option}' cannot be .*{message}"):
        configure(get_format(name), {option: value})


def test_a_column_may_be_called_by_a_number() -> None:
    assert configure(get_format("csv"), {"text": 2019}).text == "2019"  # type: ignore[attr-defined]
