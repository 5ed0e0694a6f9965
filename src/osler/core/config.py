"""Recipes: typed, frozen settings read from TOML, with `--set a.b=c` on top.

Unknown keys are rejected with the nearest valid name. The resolved recipe is saved with every artifact, and its `identity`
(every value that can change a result) decides whether an artifact can be reused.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Final, Self, TypeVar, get_args

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from osler.core.errors import RecipeError, nearest


class Recipe(BaseModel):
    """Base of every recipe and every section of one."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    retired: ClassVar[Mapping[str, Any]] = {}
    """Settings that no longer exist, with the only value they may still have.

    They stay part of the identity, so artifacts and study runs from before are still recognised.
    """

    @model_validator(mode="before")
    @classmethod
    def _accept_retired(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        for name in cls.retired.keys() & values.keys():
            if values[name] != cls.retired[name]:
                raise ValueError(f"{name} is no longer a setting; its value is always {cls.retired[name]!r}")
        return {name: value for name, value in values.items() if name not in cls.retired}

    def resolved(self) -> dict[str, Any]:
        """Every value, defaults included, as plain data."""
        return json.loads(self.model_dump_json(exclude_none=True))  # type: ignore[no-any-return]

    def identity(self) -> dict[str, Any]:
        """The values that can change the result: everything but the fields made with `runtime`."""
        values: dict[str, Any] = dict(self.retired)
        for name, field in type(self).model_fields.items():
            extra = field.json_schema_extra
            if not (isinstance(extra, dict) and extra.get("runtime")):
                values[name] = _identity(getattr(self, name))
        return values

    def changed(self, **values: Any) -> Self:
        """A copy with some fields replaced, validated again."""
        merged = {name: getattr(self, name) for name in self.model_fields_set} | values
        return type(self).model_validate(merged)

    def to_toml(self) -> str:
        return tomli_w.dumps(self.resolved())


R = TypeVar("R", bound=Recipe)


def _identity(value: Any) -> Any:
    if isinstance(value, Recipe):
        return value.identity()
    if isinstance(value, Mapping):
        return {str(key): _identity(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_identity(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def runtime(default: Any = ..., **options: Any) -> Any:
    """A field that cannot change the result, such as an input path or a number of workers."""
    return Field(default, json_schema_extra={"runtime": True}, **options)


LEFT_OUT: Final = object()
"""Value of an option that removes a key from the recipe."""


def load_recipe(
    kind: type[R], path: Path | None = None, sets: Sequence[str] = (), options: Mapping[str, Any] | None = None
) -> R:
    """Read a recipe: its file, then the command-line options that are not None, then `--set` overrides.

    An option with the value `LEFT_OUT`, or `--set key=` without a value, removes the key.
    """
    values = read_toml(path) if path else {}
    for key, value in (options or {}).items():
        if value is not None:
            _override(values, key, value, where="the command line")
    for assignment in sets:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise RecipeError(
                f"override {assignment!r} is not of the form key=value", where="--set", fix="Write --set a.b=c"
            )
        _override(values, key.strip(), _parse_value(text.strip()), where="--set")
    return validate(kind, values, where=str(path) if path else "recipe")


def merged(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with others on top, section by section."""
    result = dict(common)
    for key, value in own.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merged(result[key], value) if both else value
    return result


def _parse_value(text: str) -> Any:
    if not text:
        return LEFT_OUT
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _override(values: dict[str, Any], key: str, value: Any, *, where: str) -> None:
    """Set a value by its dotted key, or remove the key if the value is LEFT_OUT."""
    remove = value is LEFT_OUT
    *sections, name = key.split(".")
    for section in sections:
        inner = values.get(section) if remove else values.setdefault(section, {})
        if not isinstance(inner, dict):
            if remove:
                return
            raise RecipeError(f"{key}: {section!r} holds a value, not a section", where=where)
        values = inner
    if remove:
        values.pop(name, None)
    else:
        values[name] = value


def validate(kind: type[R], values: Mapping[str, Any], *, where: str) -> R:
    """Build a recipe from plain values; one RecipeError lists every mistake."""
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        lines = [_explain(kind, details) for details in error.errors()]
        # A recipe of another kind has many unknown keys: list the valid ones once.
        hints = dict.fromkeys(hint for _, hint in lines if hint)
        problem = "; ".join([*dict.fromkeys(line for line, _ in lines), *hints])
        raise RecipeError(problem, where=where, fix="Correct the recipe, or override with --set key=value") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, with an error that names file, line and column."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        siblings = [str(item) for item in path.parent.glob("*.toml")] if path.parent.is_dir() else []
        close = nearest(str(path), siblings)
        raise RecipeError(
            "no such file", where=path, fix=f"Did you mean {close}?" if close else "Check the path"
        ) from None
    except IsADirectoryError:
        raise RecipeError("this is a folder, not a recipe", where=path, fix="Give a .toml file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"not valid TOML: {error}", where=path, fix="Correct the file") from None


def _explain(kind: type[BaseModel], details: ErrorDetails) -> tuple[str, str]:
    """Describe one mistake, and give a hint that several mistakes may share."""
    location = details["loc"]
    key = ".".join(str(part) for part in location) or "recipe"
    if details["type"] == "extra_forbidden":
        owner = _owner(kind, location[:-1])
        close = nearest(str(location[-1]), owner.model_fields) if owner else None
        if close:
            return f"unknown key {key!r}, did you mean {close!r}?", ""
        return f"unknown key {key!r}", f"valid keys: {', '.join(owner.model_fields) if owner else 'none'}"
    if details["type"] == "missing":
        return f"{key!r} is missing", ""
    message = details["msg"].removeprefix("Value error, ")
    # A message about the complete recipe needs no location.
    return (message if not location else f"{key!r}: {message[:1].lower()}{message[1:]}"), ""


def _owner(kind: type[BaseModel], location: Sequence[str | int]) -> type[BaseModel] | None:
    """The model at a location, found by following field annotations."""
    owner: type[BaseModel] | None = kind
    for part in location:
        if owner is None or part not in owner.model_fields:
            continue  # a list index, a mapping key or a union tag
        owner = _model_in(owner.model_fields[str(part)].annotation)
    return owner


def find_field(kind: type[BaseModel], key: str) -> tuple[Any, str]:
    """The annotation of a field by its dotted key, and its description: `Field(description=…)` or the docstring below it."""
    *sections, name = key.split(".")
    owner = _owner(kind, sections)
    assert owner is not None, key
    field = owner.model_fields[name]
    docs = (attribute_docs(base).get(name) for base in owner.__mro__ if issubclass(base, Recipe))
    return field.annotation, field.description or next((doc for doc in docs if doc), "")


@cache
def attribute_docs(kind: type) -> dict[str, str]:
    """The docstring below each field of a class. Parsing the source is slow, so it is done only for help and documentation."""
    docs: dict[str, str] = {}
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    for field, below in pairwise(body.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            text = below.value.value if isinstance(below.value, ast.Constant) else None
            if isinstance(text, str):
                docs[field.target.id] = " ".join(text.split())
    return docs


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        found = _model_in(argument)
        if found:
            return found
    return None


@cache
def recipes_folder() -> Path:
    """The folder with the shipped recipes."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "recipes", package.parents[1] / "recipes"):
        if folder.is_dir():
            return folder
    raise RecipeError("the shipped recipes are missing from this installation", fix="Install osler again")


def find_recipe(name: str | Path) -> Path:
    """A recipe by its path, or a shipped recipe by its name (`demo/pretrain` or `demo/pretrain.toml`)."""
    return Path(name) if Path(name).is_file() else shipped_recipe(name)


def shipped_recipe(name: str | Path) -> Path:
    """A shipped recipe by its name, even if the current folder has a file of that name."""
    path = Path(name)
    shipped = recipes_folder() / path.with_suffix(".toml")
    if shipped.is_file():
        return shipped
    known = [item.relative_to(recipes_folder()).with_suffix("").as_posix() for item in recipes_folder().rglob("*.toml")]
    close = nearest(str(path.with_suffix("")), known)
    fix = f"Did you mean {close!r}?" if close else "Give a path, or a shipped recipe such as 'demo/pretrain'"
    raise RecipeError("no such recipe", where=path, fix=fix)
