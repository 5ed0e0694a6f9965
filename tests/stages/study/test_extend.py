"""A study is extended in place; a recipe that would change its runs is told exactly what differs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from osler.core.errors import OutputError
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.run import run


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> Path:
    sizes = {"train": 3, "dev": 1, "test": 4}
    return prepare(PrepareRecipe(task="clinic-entities-en", options=sizes), tmp_path_factory.mktemp("t") / "task").path


@pytest.fixture(scope="module")
def second(tmp_path_factory) -> Path:
    sizes = {"train": 3, "dev": 1, "test": 4}
    return prepare(PrepareRecipe(task="clinic-phi-en", options=sizes), tmp_path_factory.mktemp("t") / "phi").path


def recipe(task: Path, *models: str, **more) -> StudyRecipe:
    values = {"models": {name: {"model": name} for name in models}, "tasks": [task], "seeds": [0, 1]}
    return StudyRecipe.model_validate(values | {"workers": 1} | more)


def test_seeds_and_grid_values_may_be_added_and_tables_may_change(task, tmp_path, fake):
    runner = fake()
    first = recipe(task, "one", grid={"train.lr": [0.1]}, title="First")
    run(first, tmp_path / "study")
    wider = recipe(task, "one", grid={"train.lr": [0.1, 0.2]}, seeds=[0, 1, 2], title="Second", layout="lewis2020")
    made = run(wider, tmp_path / "study")
    assert len(runner.done()) == 6
    assert len(set(runner.done())) == 6
    assert json.loads((made.path / "results.json").read_text())["title"] == "Second"


def test_published_numbers_may_be_added_without_a_run(task, tmp_path, fake):
    runner = fake()
    run(recipe(task, "one"), tmp_path / "study")
    run(recipe(task, "one", published="lewis2020"), tmp_path / "study")
    named = {"one": {"model": "one", "published": "SciBERT"}}
    made = run(recipe(task, models=named, published="lewis2020"), tmp_path / "study")
    assert len(runner.done()) == 2
    assert json.loads((made.path / "results.json").read_text())["published"]["rows"] == {"one": ["SciBERT"]}


@pytest.mark.parametrize(
    ("models", "more", "told"),
    [
        (("one",), {"finetune": {"train": {"lr": 0.1}}}, "finetune.train.lr is not set there and 0.1 here"),
        (("one",), {"seeds": [0]}, "seeds 1 is missing here"),
        (("other",), {}, "model one is missing here"),
        (("one",), {"grid": {"train.lr": [0.1]}}, "grid.train.lr is new here"),
        (("one",), {"task_settings": {"clinic-entities-en": {"epochs": 3}}}, "epochs is not set there and 3 here"),
        (("one",), {"split": "dev"}, "split is test there and dev here"),
    ],
)
def test_a_recipe_that_changes_runs_is_told_exactly_what_differs(task, tmp_path, fake, models, more, told):
    fake()
    run(recipe(task, "one"), tmp_path / "study")
    with pytest.raises(
        OutputError, match=f"{re.escape(told)}.*Choose another --out, or replace its tables with --force"
    ):
        run(recipe(task, *models, **more), tmp_path / "study")


def test_a_task_with_settings_of_its_own_may_be_added(task, second, tmp_path, fake):
    runner = fake()
    run(recipe(task, "one"), tmp_path / "study")
    own = {"task_settings": {"clinic-phi-en": {"epochs": 3}}, "protocols": {"clinic-phi-en": "strict"}}
    run(recipe(task, "one", tasks=[task, second], **own), tmp_path / "study")
    assert runner.done()[2:] == ["one, clinic-phi-en, seed 0", "one, clinic-phi-en, seed 1"]


def test_a_task_with_other_data_is_named(task, tmp_path, fake):
    fake()
    run(recipe(task, "one"), tmp_path / "study")
    sizes = {"train": 3, "dev": 1, "test": 5}
    other = prepare(PrepareRecipe(task="clinic-entities-en", options=sizes), tmp_path / "other").path
    with pytest.raises(OutputError, match="task clinic-entities-en has other content now"):
        run(recipe(other, "one"), tmp_path / "study")


def test_a_folder_that_holds_no_study_is_not_replaced(task, tmp_path, fake):
    fake()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").touch()
    for out, told in ((tmp_path / "notes", "not a finished study"), (task, "another kind (task), not a study")):
        with pytest.raises(OutputError, match=re.escape(told)):
            run(recipe(task, "one"), out)
