"""Parse numbers and JSON from user files. Every failure is an InputError with file and line that never quotes the file.

Python's own functions are too lenient and fail in ways that are easy to forget: `"²".isdigit()` is true but `int("²")` raises,
an integer of more than 4,300 digits raises ValueError, deeply nested JSON raises RecursionError, and `1e999` becomes infinity.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from osler.core.errors import InputError

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_KINDS = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object", str: "a string"}
# Escapes that can yield a lone surrogate or a NUL. A raw lone surrogate cannot occur in decoded UTF-8.
_SUSPECT = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")


def to_int(text: str) -> int | None:
    """Parse a whole number of at most 18 ASCII digits, ignoring surrounding whitespace; None for anything else."""
    stripped = text.strip()
    return int(stripped) if _INTEGER.fullmatch(stripped) else None


def to_float(value: str | float) -> float | None:
    """Parse a finite number; None for anything else."""
    try:
        number = float(value)
    except (ValueError, TypeError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def parse_int(text: str, *, where: str) -> int:
    """Parse a whole number from a file."""
    number = to_int(text)
    if number is None:
        raise InputError("not a whole number", where=where, fix="Write digits only, at most 18 of them")
    return number


def parse_float(text: str | float, *, where: str) -> float:
    """Parse a finite number from a file."""
    number = to_float(text)
    if number is None:
        raise InputError("not a finite number", where=where, fix="Write a number such as 0.5, or leave it out")
    return number


def parse_json(
    text: str,
    *,
    where: str,
    complete_file: bool = False,
    lenient: bool = False,
    pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """Parse one JSON value from a line (`where` is its file and line) or from a complete file.

    Strings with a NUL or a lone surrogate are rejected, because no text file can hold them. `lenient` accepts them, and raw
    control characters, for callers that repair the text. `pairs` builds each object from its list of keys and values.
    """
    try:
        value = json.loads(text, strict=not lenient, parse_constant=_refuse, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        place = f"{where}:{error.lineno}" if complete_file else where
        fix = "Check that the file is complete" if complete_file else "Write one JSON object per line"
        raise InputError(f"not valid JSON at column {error.colno}", where=place, fix=fix) from None
    except RecursionError:
        raise InputError("the JSON is nested too deeply", where=where, fix="Write flat JSON objects") from None
    except ValueError:  # NaN or Infinity, or an integer longer than Python reads
        problem = "the JSON holds a number that is not finite or has thousands of digits"
        raise InputError(problem, where=where, fix="Write an ordinary number or null") from None
    if not lenient and _SUSPECT.search(text) and any(map(_unwritable, _strings(value))):
        fix = r"Remove \u0000 and half pairs of \ud800 to \udfff"
        raise InputError("a JSON string holds a NUL character or a lone surrogate", where=where, fix=fix)
    return value


def json_kind(value: Any) -> str:
    """Name the type of a JSON value for messages: "a number", "an object"."""
    return "null" if value is None else _KINDS[type(value)]


def _refuse(constant: str) -> float:
    raise ValueError


def _strings(value: Any) -> Iterator[str]:
    """Yield all strings of a JSON value, including keys. Not recursive, because JSON can nest deeper than the call stack."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting += [*item, *item.values()]
        elif isinstance(item, list):
            waiting += item


def _unwritable(text: str) -> bool:
    return "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text)
