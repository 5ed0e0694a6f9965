from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from pydantic import Field

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
        ("[train]\nstpes = 1", ["unknown key 'train.stpes'", "did you mean 'train.steps'"]),
        (
            "[[items]]\nnmae = 'x'",
            ["unknown key 'items.0.nmae'", "did you mean 'items.0.name'", "key 'items.0.name' is missing"],
        ),
        ("[optional]\nrtae = 1", ["did you mean 'optional.rate'"]),
        ("[train]\nsteps = 'many'", ["'train.steps' must be a whole number, not 'many'"]),
        ("zzzzz = 1\nyyyyy = 2", ["unknown key 'zzzzz'; unknown key 'yyyyy'. Known keys: title"]),
        ("zzzzz = 1", ["Known keys: title"]),
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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"title = 'x'\nsteps = = 2\n", r"recipe\.toml:2:9: not valid TOML: invalid value\. Correct the line"),
        (b"title = 'x", r"recipe\.toml:?\S* not valid TOML"),
        (b"# fine\ntitle = '\xe9'\n", r"recipe\.toml:2: the file is not UTF-8\. Save it as UTF-8"),
    ],
)
def test_a_broken_file_names_its_line(tmp_path, content, message):
    path = tmp_path / "recipe.toml"
    path.write_bytes(content)
    with pytest.raises(RecipeError, match=message):
        load_recipe(Outer, path)


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_bytes(b"\xef\xbb\xbftitle = 'windows'\n")
    assert load_recipe(Outer, path).title == "windows"


def test_a_missing_file_names_the_nearest_one(tmp_path):
    write(tmp_path, "")
    with pytest.raises(RecipeError, match=r"no such recipe. Did you mean .*recipe\.toml\?"):
        find_recipe(tmp_path / "recipes.toml")
    with pytest.raises(RecipeError, match=r"Did you mean .*recipe\.toml"):
        load_recipe(Outer, tmp_path / "recipes.toml")
    with pytest.raises(RecipeError, match="folder"):
        load_recipe(Outer, tmp_path)


class Wanting(Recipe):
    bundle: Path
    """A bundle folder. Made by finetune."""
    epochs: int = 1
    seeds: tuple[int, ...] = (1,)
    names: tuple[str, ...] = ()
    layers: tuple[int, ...] | Literal["even"] = "even"
    betas: tuple[float, float] = (0.9, 0.98)
    free: dict[str, Any] = Field(default_factory=dict)
    patterns: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    text: str = ""
    train: Inner = Inner()


FLAGS = {"bundle": "--bundle", "epochs": "--epochs"}


def refused(*arguments, **options):
    with pytest.raises(RecipeError) as caught:
        load_recipe(Wanting, *arguments, **options)
    return str(caught.value)


def test_a_mistake_is_named_as_the_user_wrote_it(tmp_path):
    path = write(tmp_path, "epochs = 'three'\n")
    assert refused(None, [], {}, FLAGS) == "--bundle is required: a bundle folder."
    assert refused(None, [], {"bundle": "b", "epochs": "x"}, FLAGS) == "--epochs must be a whole number, not 'x'."
    assert refused(None, ["epochs=x"], {"bundle": "b"}, FLAGS) == "--set epochs must be a whole number, not 'x'."
    assert refused(path, [], {"bundle": "b"}, FLAGS) == (
        f"{path}: 'epochs' must be a whole number, not 'three'. Correct the file, or override it with --epochs."
    )
    assert refused(path, ["epochs=2"], {}, FLAGS) == (f"{path}: key 'bundle' is missing (add it, or give --bundle).")
    both = refused(path, ["train.stesp=1"], {}, FLAGS)
    assert f"{path}: key 'bundle' is missing (add it, or give --bundle); 'epochs' must be a whole number" in both
    assert "--set: unknown key 'train.stesp', did you mean 'train.steps'?" in both


def test_python_settings_are_named_as_keywords():
    with pytest.raises(RecipeError, match=r"^bundle= is required: a bundle folder\.$"):
        validate(Wanting, {}, where=None, ask=lambda key: f"{key}=")
    with pytest.raises(RecipeError, match=r"^epochs= must be a whole number, not 'x'\.$"):
        validate(Wanting, {"bundle": "b", "epochs": "x"}, where=None, given={"epochs": "epochs="})


def test_a_changed_recipe_is_validated_in_plain_words():
    with pytest.raises(RecipeError, match="'epochs' must be a whole number, not 'x'"):
        Wanting(bundle="b").changed(epochs="x")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("seeds=1,2,3", (1, 2, 3)),
        ("seeds=[1, 2]", (1, 2)),
        ("seeds=7", (7,)),
        ("names=a,b, c", ("a", "b", "c")),
        ("names=[a, b]", ("a", "b")),
        ('names=["a", "b,c"]', ("a", "b,c")),
        ("names=one", ("one",)),
        ("names='a,b'", ("a,b",)),
        ("names=3", ("3",)),
        ("names=2020,b", ("2020", "b")),
        ("layers=even", "even"),
        ("layers=0,2,4", (0, 2, 4)),
        ("betas=0.8,0.9", (0.8, 0.9)),
        ("patterns.train=a*,b*", {"train": ("a*", "b*")}),
        ("free.columns=a,b,c", {"columns": "a,b,c"}),
        ("free.columns=[a, b]", {"columns": ["a", "b"]}),
        ('free={"a": [1, null]}', {"a": [1, None]}),
        ("text=[a-z]", "[a-z]"),
        ("text=a,b", "a,b"),
        ("text=2020", "2020"),
    ],
)
def test_lists_after_set(override, expected):
    recipe = load_recipe(Wanting, None, [override], {"bundle": "b"})
    assert getattr(recipe, override.partition("=")[0].split(".")[0]) == expected


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


class Grown(Recipe):
    later: ClassVar = ("unit", "parts")

    size: int = 1
    unit: str = "document"
    parts: dict[str, int] = Field(default_factory=dict)


def test_later_settings_are_part_of_the_identity_only_if_they_are_set():
    assert Grown().identity() == {"size": 1}
    assert Grown(unit="sentence", parts={"a": 1}).identity() == {"size": 1, "unit": "sentence", "parts": {"a": 1}}
    assert Grown().resolved() == {"size": 1, "unit": "document", "parts": {}}
