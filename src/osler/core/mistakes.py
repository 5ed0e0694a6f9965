"""Describe mistakes in settings in plain words: what is expected and what was given.

Pydantic finds the mistakes, but its own messages are for programmers and are never shown to users.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from osler.core.errors import nearest


@dataclass(frozen=True)
class Mistake:
    """One mistake in the settings."""

    kind: Literal["missing", "unknown", "wrong", "message"]
    """A required key is missing, a key is unknown, a value is wrong, or a validator gave its own message."""
    key: str
    """The dotted key; empty for a message about all settings."""
    text: str = ""
    """The text after the key, such as `must be at least 1, not 0`."""
    suggestions: tuple[str, ...] = ()
    """For an unknown key: the keys the user may have meant."""
    known: tuple[str, ...] = ()
    """For an unknown key without suggestions: all keys of its section."""


def mistakes(kind: Any, error: ValidationError) -> list[Mistake]:
    """Return every mistake found while validating against a model or another annotation."""
    found = dict.fromkeys(_mistake(kind, details) for details in error.errors(include_url=False))
    # Pydantic also reports a list with a wrong item as too short.
    inner = [mistake.key for mistake in found]
    return [m for m in found if m.kind != "wrong" or not any(key.startswith(f"{m.key}.") for key in inner)]


def _mistake(kind: Any, details: ErrorDetails) -> Mistake:
    location, reason = details["loc"], details["type"]
    if reason == "extra_forbidden":
        return _unknown(kind, location)
    if reason == "missing" and isinstance(location[-1], str):
        return Mistake("missing", _walk(kind, location)[0])
    if reason in ("value_error", "assertion_error"):
        message = str(details["ctx"]["error"]) if "ctx" in details else details["msg"]
        return Mistake("message", _walk(kind, location)[0], message)
    if reason == "missing":  # an item of a fixed-length list
        location = location[:-1]
    key, annotation = _walk(kind, location)
    limit = _limit(reason, details.get("ctx", {}))
    be = "must only have the keys" if location[-1:] == ("[key]",) else "must be"
    expected = limit or f"{be} {describe(annotation)}"
    return Mistake("wrong", key, f"{expected}, not {given(details['input'])}")


_LIMITS = {
    "greater_than": "must be greater than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "too_short": "must have at least {min_length} {values}",
    "too_long": "must have at most {max_length} {values}",
    "string_pattern_mismatch": "must be {form}",
}
_FORMS = {
    r"^[a-z]{2,3}$": "a language code such as en or es",
    r"^[\w.+-]+$": "a name of letters, digits and the signs . + - _",
    r"^[a-z0-9][a-z0-9\-]*$": "a name of lower-case letters, digits and hyphens",
    r"^(auto|cpu|cuda(:\d+)?)$": "auto, cpu, cuda or cuda:N",
    r"^.$": "one character",
    r"^(id|text|first|meta:.+|table:.+)$": "id, text, first, meta:NAME or table:NAME",
}
"""Patterns of text fields, in words."""


def _limit(reason: str, context: Mapping[str, Any]) -> str | None:
    """Return the limit that a value of the right type violates, or None if the type is wrong."""
    if reason not in _LIMITS:
        return None
    length = context.get("min_length", context.get("max_length"))
    pattern = context.get("pattern", "")
    words = {"values": "value" if length == 1 else "values", "form": _FORMS.get(pattern, f"text like {pattern}")}
    return _LIMITS[reason].format(**context, **words)


_TYPES: Mapping[Any, tuple[str, str]] = {
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "true or false"),
    str: ("text", "texts"),
    Path: ("a path", "paths"),
}


def describe(annotation: Any, *, plural: bool = False) -> str:
    """Describe a type in words: `a whole number`, `a list of paths`, `'keep' or 'remove'`."""
    parts = _members(annotation)
    if int in parts and float in parts:
        parts = [part for part in parts if part is not int]
    return _join([_describe_one(part, plural) for part in parts])


def _describe_one(annotation: Any, plural: bool) -> str:
    if annotation in _TYPES:
        return _TYPES[annotation][plural]
    origin = get_origin(annotation) or annotation
    if origin is Literal:
        return _join([repr(value) for value in get_args(annotation)])
    if isinstance(origin, type):
        if issubclass(origin, Enum):
            return _join([repr(member.value) for member in origin])
        if issubclass(origin, BaseModel | Mapping):
            return "sections" if plural else "a section"
        if issubclass(origin, Sequence):
            items = [item for item in get_args(annotation) if item is not ...]
            fixed = f"{len(items)} " if origin is tuple and ... not in get_args(annotation) else ""
            return f"{'lists' if plural else 'a list'} of {fixed}{describe(items[0] if items else Any, plural=True)}"
    return "values" if plural else "a value"


def given(value: Any) -> str:
    """Describe a given value. Only a short word is quoted, because a longer text may come from a document."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Path):
        value = str(value)
    if isinstance(value, str):
        return repr(value) if re.fullmatch(r"\S{0,60}", value) else f"a text of {len(value):,} characters"
    if value is None or isinstance(value, int | float):
        return str(value)[:60]
    if isinstance(value, Mapping | BaseModel):
        return "a section"
    if isinstance(value, list | tuple | set | frozenset):
        return f"a list of {len(value):,}" if value else "an empty list"
    return f"a value of type {type(value).__name__}"


def _join(words: Sequence[str]) -> str:
    unique = list(dict.fromkeys(words))
    return " or ".join(part for part in (", ".join(unique[:-1]), unique[-1]) if part)


# Names of these settings in other tools.
_ALIASES = {
    "adam_epsilon": "eps",
    "batch": "batch_size",
    "bf16": "precision",
    "dataloader_num_workers": "workers",
    "early_stopping_patience": "patience",
    "eval_steps": "eval_every",
    "evaluation_steps": "eval_every",
    "fp16": "precision",
    "grad_clip": "clip",
    "gradient_accumulation": "accumulate",
    "gradient_accumulation_steps": "accumulate",
    "gradient_clipping": "clip",
    "learning_rate": "lr",
    "logging_steps": "log_every",
    "lr_scheduler": "schedule",
    "lr_scheduler_type": "schedule",
    "max_epochs": "epochs",
    "max_grad_norm": "clip",
    "max_seq_len": "max_length",
    "max_seq_length": "max_length",
    "max_steps": "steps",
    "mlm_probability": "rate",
    "model_name_or_path": "model",
    "n_epochs": "epochs",
    "num_epochs": "epochs",
    "num_train_epochs": "epochs",
    "num_workers": "workers",
    "optim": "optimizer",
    "per_device_train_batch_size": "batch_size",
    "random_seed": "seed",
    "save_steps": "checkpoint_every",
    "scheduler": "schedule",
    "seq_length": "max_length",
    "stride": "overlap",
    "vocab_size": "size",
    "warmup_ratio": "warmup",
    "warmup_steps": "warmup",
}


def _unknown(kind: Any, location: tuple[str | int, ...]) -> Mistake:
    key = _walk(kind, location)[0]
    section, owner = _walk(kind, location[:-1])
    model = _model(owner)
    fields = [f"{section}.{name}" if section else name for name in (model.model_fields if model else ())]
    name = str(location[-1])
    meant = _ALIASES.get(name, name)
    # Try a key of this section, then the same name in another section, then a likely typo.
    found = [field for field in fields if field.rpartition(".")[2] == meant]
    found = found or [field for field in _keys(kind) if field.rpartition(".")[2] == meant]
    if not found:
        close = nearest(name, [field.rpartition(".")[2] for field in fields])
        found = [field for field in fields if close and field.rpartition(".")[2] == close]
    return Mistake("unknown", key, suggestions=tuple(found[:3]), known=() if found else tuple(fields))


def _keys(kind: Any, section: str = "") -> Iterator[str]:
    """Yield every dotted key of a model and its sections."""
    model = _model(kind)
    for name, field in model.model_fields.items() if model else ():
        yield section + name
        yield from _keys(field.annotation, f"{section}{name}.")


def find_annotation(kind: Any, key: str) -> Any:
    """Return the annotation of a dotted key, or Any if there is no such field."""
    return _walk(kind, tuple(key.split(".")) if key else (), tags=False)[1]


def find_model(kind: Any, section: str) -> type[BaseModel] | None:
    """Return the model of a section by its dotted key; the empty key stands for the model itself."""
    return _model(find_annotation(kind, section))


def _model(annotation: Any) -> type[BaseModel] | None:
    return next((part for part in _members(annotation) if isinstance(part, type) and issubclass(part, BaseModel)), None)


def _walk(kind: Any, location: tuple[str | int, ...], *, tags: bool = True) -> tuple[str, Any]:
    """Return the dotted key of a location and the annotation there.

    With `tags`, the location comes from pydantic, which adds the name of the type it tried after a field with several types.
    """
    annotation, container = kind, Any
    key: list[str] = []
    for index, part in enumerate(location):
        members = _members(annotation)
        if tags and len(members) > 1:
            if index + 1 < len(location):
                annotation = next((member for member in members if _is_container(member)), Any)
            continue
        if part == "[key]":  # the part before it is an invalid key
            return ".".join(key[:-1]), get_args(container)[0]
        key.append(str(part))
        container = next((member for member in members if _is_container(member)), Any)
        annotation = _inside(container, part)
    return ".".join(key), annotation


def _inside(container: Any, part: str | int) -> Any:
    if isinstance(container, type) and issubclass(container, BaseModel):
        return container.model_fields[str(part)].annotation if part in container.model_fields else Any
    items = get_args(container)
    if not items:
        return Any
    if issubclass(get_origin(container), Mapping):
        return items[-1]
    return items[part] if isinstance(part, int) and part < len(items) and items[part] is not ... else items[0]


def _members(annotation: Any) -> list[Any]:
    """Return the types an annotation allows, without None."""
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [member for part in get_args(annotation) for member in _members(part) if member is not type(None)]
    return [annotation]


def _is_container(annotation: Any) -> bool:
    origin = get_origin(annotation) or annotation
    return isinstance(origin, type) and issubclass(origin, BaseModel | Mapping | Sequence) and origin is not str


def list_types(annotation: Any) -> list[Any]:
    """Return the list types that an annotation allows."""
    return [part for part in _members(annotation) if isinstance(get_origin(part), type) and is_list(part)]


def is_list(annotation: Any) -> bool:
    """Whether an annotation allows only lists."""
    return all(
        isinstance(origin := get_origin(part) or part, type) and issubclass(origin, list | tuple)
        for part in _members(annotation)
    )


def is_text(annotation: Any) -> bool:
    """Whether an annotation allows only text or paths."""
    return all(part in (str, Path) for part in _members(annotation))
