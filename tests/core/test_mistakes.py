"""Mistakes in plain words: no recipe of osler lets pydantic's own wording through."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

import osler
from osler.core.config import Recipe, validate
from osler.core.errors import OslerError
from osler.core.mistakes import _ALIASES, _FORMS, _keys, describe, given, mistakes

PYDANTIC = ("input should", "valid ", "unable to", "instance of", "pydantic", "should have", "should match", "nonetype")


def recipes(kind: type[Recipe] = Recipe) -> Iterator[type[Recipe]]:
    for child in kind.__subclasses__():
        if child.__module__.startswith("osler."):
            yield child
        yield from recipes(child)


def all_recipes() -> list[type[Recipe]]:
    for module in pkgutil.walk_packages(osler.__path__, "osler."):
        if module.name.endswith((".config", ".card", ".recipe", ".masking", ".synthesize", ".source")):
            importlib.import_module(module.name)
    return list(dict.fromkeys(recipes()))


BAD: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 1e400, float("nan"), "", "x", "two words", "-3", b"\xff", [], [[]], [None], ["x"], [-1, -2, -3],
    {}, {"x": 1}, {1: 2}, {"x": {"y": None}}, [{}], [{"x": 1}], object(),
)  # fmt: skip


def complaint(kind: type[Recipe], values: dict[str, Any]) -> str | None:
    try:
        validate(kind, values, where="here")
    except OslerError as error:
        return str(error)
    return None


def test_no_recipe_speaks_pydantic():
    seen = 0
    for kind in all_recipes():
        required = {name: "x" for name, field in kind.model_fields.items() if field.is_required()}
        for name in kind.model_fields:
            for value in BAD:
                text = complaint(kind, {**required, name: value})
                seen += text is not None
                assert not [words for words in PYDANTIC if words in (text or "").lower()], (kind, name, value, text)
    assert seen > 1000


def test_every_pattern_has_words():
    for kind in all_recipes():
        for field in kind.model_fields.values():
            for rule in field.metadata:
                assert getattr(rule, "pattern", None) in {None, *_FORMS}, (kind, rule)


def test_every_alias_leads_to_a_real_key():
    known = {key.rpartition(".")[2] for kind in all_recipes() for key in _keys(kind)}
    assert set(_ALIASES.values()) <= known


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("train.learning_rate", "train.lr"),
        ("learning_rate", "train.lr"),
        ("lr", "train.lr"),
        ("train.batch_size", "batch_size"),
        ("num_train_epochs", "epochs"),
        ("train.epochs", "epochs"),
        ("max_seq_length", "max_length"),
        ("train.max_grad_norm", "train.clip"),
        ("warmup_steps", "train.warmup"),
        ("train.optimiser", "train.optimizer"),
        ("gradient_accumulation_steps", "accumulate"),
    ],
)
def test_names_from_other_tools_are_understood(key, meant):
    from osler.stages.finetune.config import FinetuneRecipe

    values: dict[str, Any] = {"model": "m", "tasks": ["t"]}
    *sections, name = key.split(".")
    inner = values
    for section in sections:
        inner = inner.setdefault(section, {})
    inner[name] = 1
    with pytest.raises(OslerError, match=f"unknown key '{key}', did you mean '{meant}'\\?"):
        validate(FinetuneRecipe, values, where="here")


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (int, "a whole number"),
        (int | float, "a number"),
        (bool | None, "true or false"),
        (tuple[Path, ...], "a list of paths"),
        (tuple[float, float], "a list of 2 numbers"),
        (tuple[tuple[str, str], ...], "a list of lists of 2 texts"),
        (dict[str, int], "a section"),
        (tuple[int, ...] | str, "a list of whole numbers or text"),
        (Any, "a value"),
    ],
)
def test_types_in_words(annotation, words):
    assert describe(annotation) == words


def test_a_sentence_is_never_quoted():
    assert given("Mr John Smith was seen today") == "a text of 28 characters"
    assert given("many") == "'many'"
    assert given("x" * 61) == "a text of 61 characters"
    assert given({"a": 1}) == "a section"
    assert given([1, 2]) == "a list of 2"


def test_a_value_of_an_option_is_explained_without_a_model():
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(list[int]).validate_python(["three"])
    assert mistakes(list[int], caught.value)[0].text == "must be a whole number, not 'three'"
