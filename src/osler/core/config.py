"""Recipes: typed, frozen settings read from TOML, with `--set a.b=c` overrides.

Unknown keys are rejected with a suggestion. The resolved recipe is saved with every artifact, and its `identity` (every value
that can change a result) decides whether an artifact can be reused.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self, TypeVar, get_args

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from osler.core.errors import OslerError, RecipeError, nearest
from osler.core.mistakes import Mistake, find_annotation, find_model, is_list, is_text, list_types, mistakes


class Recipe(BaseModel):
    """Base class of every recipe and recipe section."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    retired: ClassVar[Mapping[str, Any]] = {}
    """Removed settings, each with the only value that is still accepted.

    They stay part of the identity, so that existing artifacts and study runs are still recognised.
    """
    later: ClassVar[tuple[str, ...]] = ()
    """Settings added later. At their default they are left out of the identity, for the same reason."""

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
        """Return every value, including defaults, as plain data."""
        return json.loads(self.model_dump_json(exclude_none=True))  # type: ignore[no-any-return]

    def identity(self) -> dict[str, Any]:
        """Return the values that can change the result: all fields except those declared with `runtime`."""
        values: dict[str, Any] = dict(self.retired)
        for name, field in type(self).model_fields.items():
            extra = field.json_schema_extra
            if not (isinstance(extra, dict) and extra.get("runtime")):
                values[name] = _identity(getattr(self, name))
        return self.without_later(values)

    def without_later(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return `values` without the `later` fields that are at their default."""
        fields = type(self).model_fields
        unset = {
            name for name in self.later if getattr(self, name) == fields[name].get_default(call_default_factory=True)
        }
        return {name: value for name, value in values.items() if name not in unset}

    def changed(self, **values: Any) -> Self:
        """Return a copy with some fields replaced, validated again."""
        merged = {name: getattr(self, name) for name in self.model_fields_set} | values
        return validate(type(self), merged, where=None)

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
    """Declare a field that cannot change the result, such as an input path or a number of workers."""
    return Field(default, json_schema_extra={"runtime": True}, **options)


def assignments(given: Any) -> Any:
    """Turn KEY=VALUE strings from the command line into a dictionary; return anything else unchanged. For validators."""
    if not isinstance(given, list | tuple):
        return given
    pairs = [str(text).rpartition("=") for text in given]
    if any(not key.strip() or not equals for key, equals, _ in pairs):
        raise ValueError("must be of the form KEY=VALUE")
    return {key.strip(): value.strip() for key, _, value in pairs}


LEFT_OUT: Final = object()
"""Option value that removes a key from the recipe."""


def load_recipe(
    kind: type[R],
    path: Path | None = None,
    sets: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    flags: Mapping[str, str] | None = None,
) -> R:
    """Load a recipe from its file, then apply the command-line options that are not None, then the `--set` overrides.

    An option with the value `LEFT_OUT`, or `--set key=` without a value, removes the key. `flags` maps keys to their names on
    the command line, such as `--bundle`.
    """
    values = read_toml(path) if path else {}
    given: dict[str, str] = {}
    for key, value in (options or {}).items():
        if value is not None:
            _override(values, key, value, where="the command line")
            given[key] = (flags or {}).get(key, key)
    for assignment in sets:
        key, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals or not key:
            raise RecipeError(
                f"{assignment!r} is not of the form key=value", where="--set", fix="Write --set key=value"
            )
        _override(values, key, parse_value(text, find_annotation(kind, key)), where="--set")
        given[key] = f"--set {key}"
    ask = None if flags is None else lambda key: flags.get(key, f"--set {key}=VALUE")
    return validate(kind, values, where=str(path) if path else None, given=given, ask=ask)


def merged(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return `common` overridden by `own`, merged section by section."""
    result = dict(common)
    for key, value in own.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merged(result[key], value) if both else value
    return result


def parse_value(text: str, annotation: Any) -> Any:
    """Parse the value after `--set key=`: TOML, JSON or plain text. `a,b` is a list if the field is one."""
    if not text:
        return LEFT_OUT
    value = _parse(text, annotation)
    if isinstance(value, list | dict):
        return value
    if isinstance(value, str) and value != text:  # quoted text
        return [value] if is_list(annotation) else value
    lists = list_types(annotation)
    bracketed = text.startswith("[") and text.endswith("]") and not is_text(annotation)
    if bracketed or (lists and ("," in text or is_list(annotation))):
        item_type = get_args(lists[0])[0] if lists else Any
        items = (text[1:-1] if bracketed else text).split(",")
        return [_parse(item.strip(), item_type) for item in items if item.strip()]
    return value


def _parse(text: str, annotation: Any) -> Any:
    try:
        value = tomllib.loads(f"value = {text}")["value"]
        # In a text field, an unquoted 2020 is text.
        return text if is_text(annotation) and not isinstance(value, str) else value
    except tomllib.TOMLDecodeError:
        pass
    try:
        return json.loads(text) if text[:1] in "[{" else text
    except json.JSONDecodeError:
        return text


def _override(values: dict[str, Any], key: str, value: Any, *, where: str) -> None:
    """Set a dotted key, or remove it if the value is LEFT_OUT."""
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


def validate(
    kind: type[R],
    values: Mapping[str, Any],
    *,
    where: str | None,
    given: Mapping[str, str] = MappingProxyType({}),
    ask: Callable[[str], str] | None = None,
) -> R:
    """Build a recipe from plain values. Raises one RecipeError that lists every mistake, with keys named as the user wrote them.

    `where` is the file or section that the values come from. `given` maps keys that came from elsewhere to their names, such as
    `--epochs`. `ask` returns how to give a missing key.
    """
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        found = mistakes(kind, error)
    except OslerError as error:  # from a section with its own validation
        raise type(error)(
            error.problem, where=": ".join(filter(None, (where, error.where))) or None, fix=error.fix
        ) from None
    # Group by place: values of a file share one, those of the command line are named in the message.
    places: dict[str | None, list[str]] = {}
    fixes: set[str] = set()
    for mistake in found:
        name = _given_name(mistake.key, given)
        place = None if name or (ask and mistake.kind == "missing" and not where) else where
        text, fix = _explain(kind, mistake, name, ask, in_file=place is not None)
        places.setdefault(place, []).append(text)
        fixes |= {fix} if fix else set()
    listed = {place: "; ".join(dict.fromkeys(texts)) for place, texts in places.items()}
    fix = "Correct the file" if where and len(fixes) > 1 else ". ".join(sorted(fixes))
    if len(listed) == 1:
        [(place, problem)] = listed.items()
        raise RecipeError(problem, where=place, fix=fix)
    raise RecipeError("; ".join(f"{place}: {text}" if place else text for place, text in listed.items()), fix=fix)


def _given_name(key: str, given: Mapping[str, str]) -> str | None:
    """Return how the user gave a key, or the list or section around it; None if it came from the file."""
    for name, written in given.items():
        if key == name:
            return written
        if key.startswith(f"{name}."):
            return f"{written}: {key!r}"
    return None


def _explain(
    kind: type[Recipe], mistake: Mistake, name: str | None, ask: Callable[[str], str] | None, *, in_file: bool
) -> tuple[str, str]:
    """Return the message for a mistake, and the fix."""
    key = mistake.key
    if mistake.kind == "missing":
        if in_file or ask is None:
            return f"key {key!r} is missing" + (f" (add it, or give {ask(key)})" if ask else ""), ""
        about = find_field(kind, key)[1].partition(". ")[0].rstrip(".")
        return f"{ask(key)} is required" + (f": {about[:1].lower()}{about[1:]}" if about else ""), ""
    if mistake.kind == "unknown":
        prefix = "--set: " if name and name.startswith("--set") else ""
        if mistake.suggestions:
            return f"{prefix}unknown key {key!r}, did you mean {' or '.join(map(repr, mistake.suggestions))}?", ""
        return f"{prefix}unknown key {key!r}", f"Known keys: {', '.join(mistake.known) or 'none'}"
    override = f"Correct the file, or override it with {ask(key)}" if in_file and ask and key else ""
    if mistake.kind == "message":
        subject = name or (repr(key) if key else "")
        return f"{subject}: {mistake.text}" if subject else mistake.text, override
    lists = "Write a list as a,b,c" if mistake.text.startswith("must be a list") and name and "--set" in name else ""
    return f"{name or repr(key)} {mistake.text}", lists or override


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file. Errors name the file and line."""
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise _no_recipe(path, [str(item) for item in path.parent.glob("*.toml")]) from None
    except IsADirectoryError:
        raise RecipeError("this is a folder, not a TOML file", where=path, fix="Give a .toml file") from None
    except OSError as error:
        problem = f"cannot be read: {(error.strerror or 'unknown error').lower()}"
        raise RecipeError(problem, where=path, fix="Check the file and its permissions") from None
    except UnicodeDecodeError as error:
        number = error.object[: error.start].count(b"\n") + 1
        raise RecipeError("the file is not UTF-8", where=f"{path}:{number}", fix="Save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        reason, _, place = str(error).removesuffix(")").partition(" (at ")
        line, _, column = place.removeprefix("line ").partition(", column ")
        where = f"{path}:{line}:{column}" if column else path
        fix = "Correct the line: text needs quotes, a list needs brackets" if column else "Correct the end of the file"
        raise RecipeError(f"not valid TOML: {reason[:1].lower()}{reason[1:]}", where=where, fix=fix) from None


def find_field(kind: type[BaseModel], key: str) -> tuple[Any, str]:
    """Return the annotation and description (`Field(description=…)` or the docstring below) of the field at a dotted key."""
    section, _, name = key.rpartition(".")
    owner = find_model(kind, section)
    assert owner is not None, key
    field = owner.model_fields[name]
    docs = (attribute_docs(base).get(name) for base in owner.__mro__ if issubclass(base, Recipe))
    return field.annotation, field.description or next((doc for doc in docs if doc), "")


@cache
def attribute_docs(kind: type) -> dict[str, str]:
    """Return the docstring below each field of a class. Slow, as it parses the source: only for help and documentation."""
    docs: dict[str, str] = {}
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    for field, below in pairwise(body.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            text = below.value.value if isinstance(below.value, ast.Constant) else None
            if isinstance(text, str):
                docs[field.target.id] = " ".join(text.split())
    return docs


@cache
def shipped_folder(name: str) -> Path:
    """Return a folder of TOML files shipped with the package: `recipes` or `published`."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / name, package.parents[1] / name):
        if folder.is_dir():
            return folder
    raise RecipeError(f"the folder {name!r} is missing from this installation", fix="Install osler again")


def shipped_recipes() -> list[str]:
    """Return the names of all shipped recipes."""
    folder = shipped_folder("recipes")
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.toml"))


def find_recipe(name: str | Path) -> Path:
    """Find a recipe by path, or a shipped recipe by name (`demo/pretrain` or `demo/pretrain.toml`)."""
    path = Path(name)
    if path.is_file() or (path.is_dir() and path.suffix == ".toml"):
        return path
    return shipped_recipe(name)


def shipped_recipe(name: str | Path) -> Path:
    """Find a shipped recipe by name, even if the current folder has a file of that name."""
    path = Path(name)
    shipped = shipped_folder("recipes") / path.with_suffix(".toml")
    if shipped.is_file():
        return shipped
    raise _no_recipe(path, [*(str(item) for item in path.parent.glob("*.toml")), *shipped_recipes()])


def _no_recipe(path: Path, known: Sequence[str]) -> RecipeError:
    """Return the error for a recipe that does not exist, with the closest one that does."""
    close = nearest(str(path), known) or nearest(str(path.with_suffix("")), known)
    close = close or next((name for name in known if Path(name).stem == path.stem), None)
    fix = f"Did you mean {close}?" if close else "Give a path, or a shipped recipe such as demo/pretrain"
    return RecipeError("no such recipe", where=path, fix=fix)
