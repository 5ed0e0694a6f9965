from __future__ import annotations

import tomllib
from pathlib import Path
from typing import ClassVar

import pytest

from osler.core.config import LEFT_OUT, Recipe, find_recipe, load_recipe, runtime, validate
from osler.core.errors import RecipeError


class Inner(Recipe):
    steps: int = 10
    rate: float = 0.1


class Item(Recipe):
    name: str


class Outer(Recipe):
    title: str = "t"
    train: Inner = Inner()
    items: tuple[Item, ...] = ()
    optional: Inner | None = None
    place: Path = runtime(Path("here"))


def write(tmp_path, text):
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    return path


def test_file_then_options_then_overrides(tmp_path):
    path = write(tmp_path, 'title = "file"\n[train]\nsteps = 1\nrate = 0.5\n')
    recipe = load_recipe(Outer, path, ["train.steps=3"], {"train.steps": 2, "title": None})
    assert (recipe.title, recipe.train.steps, recipe.train.rate) == ("file", 3, 0.5)


def test_options_and_overrides_can_remove_a_key(tmp_path):
    path = write(tmp_path, 'title = "file"\n[train]\nsteps = 1\nrate = 0.5\n')
    recipe = load_recipe(
        Outer, path, ["title=", "optional.rate="], {"train.steps": LEFT_OUT, "optional.steps": LEFT_OUT}
    )
    assert (recipe.title, recipe.train.steps, recipe.train.rate, recipe.optional) == ("t", 10, 0.5, None)


@pytest.mark.parametrize(
    ("override", "expected"),
    [("title=plain words", "plain words"), ("title='quoted'", "quoted"), ("items=[{name='a'}]", (Item(name="a"),))],
)
def test_override_values_are_toml_or_plain_text(override, expected):
    recipe = load_recipe(Outer, None, [override])
    assert getattr(recipe, override.split("=")[0]) == expected


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("tilte = 'x'", ["unknown key 'tilte'", "did you mean 'title'"]),
        ("[train]\nstpes = 1", ["unknown key 'train.stpes'", "did you mean 'steps'"]),
        ("[[items]]\nnmae = 'x'", ["unknown key 'items.0.nmae'", "did you mean 'name'", "'items.0.name' is missing"]),
        ("[optional]\nrtae = 1", ["did you mean 'rate'"]),
        ("[train]\nsteps = 'many'", ["'train.steps'", "valid integer"]),
        ("zzzzz = 1\nyyyyy = 2", ["unknown key 'zzzzz'; unknown key 'yyyyy'; valid keys: title"]),
        ("zzzzz = 1", ["valid keys: title"]),
    ],
)
def test_every_mistake_is_listed_with_its_key(tmp_path, text, pieces):
    path = write(tmp_path, text)
    with pytest.raises(RecipeError) as caught:
        load_recipe(Outer, path)
    for piece in pieces:
        assert piece in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("override", ["title", "=x", "train.steps.more=1"])
def test_a_malformed_override_is_refused(override):
    with pytest.raises(RecipeError, match="--set"):
        load_recipe(Outer, None, ["train.steps=1", override])


def test_broken_toml_names_file_and_line(tmp_path):
    path = write(tmp_path, "title = 'x'\nsteps = = 2\n")
    with pytest.raises(RecipeError, match="line 2") as caught:
        load_recipe(Outer, path)
    assert str(path) in str(caught.value)


def test_a_missing_file_names_the_nearest_one(tmp_path):
    write(tmp_path, "")
    with pytest.raises(RecipeError, match=r"Did you mean .*recipe\.toml"):
        load_recipe(Outer, tmp_path / "recipes.toml")
    with pytest.raises(RecipeError, match="folder"):
        load_recipe(Outer, tmp_path)


def test_identity_leaves_out_runtime_fields_and_the_resolved_recipe_is_toml():
    one, other = Outer(place=Path("a")), Outer(place=Path("b"))
    assert one.identity() == other.identity()
    assert Outer(train=Inner(steps=11)).identity() != one.identity()
    assert tomllib.loads(one.to_toml())["train"] == {"steps": 10, "rate": 0.1}


def test_a_recipe_is_frozen_but_can_be_copied_with_changes():
    recipe = Outer()
    with pytest.raises(Exception, match="frozen"):
        recipe.title = "other"
    assert recipe.changed(title="other").title == "other"


def test_shipped_recipes_are_found_by_name_and_typos_are_explained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo" / "vocab").mkdir(parents=True)  # a folder of that name, made by the demo itself, is no recipe
    assert find_recipe("demo/vocab").name == "vocab.toml"
    with pytest.raises(RecipeError, match="demo/vocab"):
        find_recipe("demo/vocap")


class Retiring(Recipe):
    retired: ClassVar[dict[str, int]] = {"keep": 2}
    lr: float = 1e-3


class Original(Recipe):
    lr: float = 1e-3
    keep: int = 2


def test_a_retired_setting_keeps_its_identity_and_rejects_other_values() -> None:
    assert Retiring().identity() == Original().identity()
    assert validate(Retiring, {"keep": 2, "lr": 0.1}, where="test") == Retiring(lr=0.1)
    with pytest.raises(RecipeError, match="keep is no longer a setting; its value is always 2"):
        validate(Retiring, {"keep": 3}, where="test")
