"""Reading one JSON object from a file, with errors that name the line and never the text."""

from __future__ import annotations

import json
from typing import Any

from osler.core.errors import InputError
from osler.formats.sources import SourceTree


def read_object(tree: SourceTree, name: str) -> dict[str, Any]:
    """The object a JSON file consists of; a key that occurs twice is refused."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise InputError("a key occurs twice in one object", where=tree.where(name), fix="Remove the copy")
        return found

    text = tree.text(name).removeprefix("\ufeff")
    try:
        data = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        place = tree.where(name, error.lineno)
        raise InputError(f"not JSON at column {error.colno}", where=place, fix="Check that the file is whole") from None
    except RecursionError:
        raise InputError("JSON nested too deep: refused", where=tree.where(name)) from None
    if not isinstance(data, dict):
        raise InputError("not a JSON object", where=tree.where(name), fix="Check that it is the right file")
    return data
