"""The recipe of a study: rows and the settings they take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from osler.core.config import load_recipe, validate
from osler.core.errors import RecipeError
from osler.stages.study.recipe import StudyRecipe

TUNED = {"model": "a", "settings": {"train": {"lr": 5e-5}}, "task_settings": {"x": {"epochs": 30}}}
REFINED = {"model": "a", "refine": {"tasks": ["x", "y"], "settings": {"epochs": 100}}}


def study(models: dict[str, Any], **more: Any) -> StudyRecipe:
    return validate(StudyRecipe, {"models": models, "tasks": ["x", "y"]} | more, where="test")


def test_a_row_takes_the_settings_of_the_row_it_is_like() -> None:
    own = {"model": "b", "like": "tuned", "task_settings": {"y": {"epochs": 2}}}
    found = study({"tuned": TUNED, "mine": own, "next": {"model": "c", "like": "mine"}}).models
    assert found["mine"].model == "b"
    assert found["mine"].settings == {"train": {"lr": 5e-5}}
    assert found["mine"].task_settings == found["next"].task_settings == {"x": {"epochs": 30}, "y": {"epochs": 2}}
    refined = study({"refined": REFINED, "mine": {"model": "b", "like": "refined"}}).models["mine"].refine
    assert refined is not None
    assert (refined.tasks, refined.settings) == (("x", "y"), {"epochs": 100})


def test_only_the_settings_count_and_not_how_they_were_named() -> None:
    written = study({"tuned": TUNED, "mine": TUNED | {"model": "b"}})
    short = study({"tuned": TUNED, "mine": {"model": "b", "like": "tuned"}})
    assert short.identity() == written.identity()
    # The row it is like may be left out, and the recipe can be written and read again.
    alone = study({"tuned": TUNED, "mine": {"model": "b", "like": "tuned"}}, without=["tuned"])
    assert alone.models["mine"].task_settings == TUNED["task_settings"]
    assert StudyRecipe.model_validate(alone.resolved()) == alone
    assert alone.changed(title="Other").models == alone.models


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({"a": TUNED, "b": {"model": "b", "like": "c"}}, "models.b.like: 'c' is not a row; rows: a"),
        ({"a": {"model": "a", "like": "a"}}, "'a' takes its settings from 'a'"),
        ({"a": {"model": "a", "like": "b"}, "b": {"model": "b", "like": "a"}}, "'a' takes its settings from 'b'"),
    ],
)
def test_a_row_like_no_other_is_refused(models: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        study(models)


def test_a_row_says_which_settings_it_takes_where_rows_have_different_ones(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        """
tasks = ["x", "y"]
[finetune]
epochs = 10
[models.tuned]
model = "a"
task_settings = { x = { epochs = 30 } }
"""
    )

    def added(*sets: str) -> StudyRecipe:
        return load_recipe(StudyRecipe, tmp_path / "study.toml", ["models.mine.model=b", *sets])

    with pytest.raises(RecipeError, match=r"models\.mine does not say which settings it takes") as error:
        added()
    assert "set models.mine.like to one of tuned, or models.mine.settings to {}" in str(error.value)
    assert added("models.mine.like=tuned").models["mine"].task_settings == {"x": {"epochs": 30}}
    assert added("models.mine.settings={}").models["mine"].task_settings == {}
    # A study that was begun is read again with the row it has.
    again = StudyRecipe.model_validate(added("models.mine.settings={}").resolved())
    assert again.models["mine"].task_settings == {}


def test_rows_that_share_all_settings_need_not_name_them() -> None:
    assert set(study({"a": {"model": "a"}, "b": {"model": "b", "settings": {"reinitialise": True}}}).models) == {
        "a",
        "b",
    }
