"""Files that fine-tuning settings name by path. They count by what is in them, as models and tasks do, wherever a study is run from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

PATHS = (".mlm.corpus", ".teacher.bundle")
"""Where settings hold a path: the end of a dotted name. Digests of what lies there are `RunSpec.inputs`."""


def with_whole_paths(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings, or a recipe with settings in it, that mean the same in any working folder."""
    whole: dict[str, Any] = _changed(values, os.path.abspath)
    return whole


def without_paths(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same less the text of these paths: what cannot make a result a different one."""
    rest: dict[str, Any] = _changed(values, lambda _: None)
    return rest


def _changed(value: Any, change: Callable[[str | Path], str | None], place: str = "") -> Any:
    if isinstance(value, Mapping):
        return {name: _changed(item, change, f"{place}.{name}") for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_changed(item, change, place) for item in value]
    return change(value) if isinstance(value, str | Path) and place.endswith(PATHS) else value
