"""Which HIPAA Safe Harbor identifier each label of a de-identification corpus stands for."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from osler.core.errors import InputError, UnknownNameError, nearest

_DATA = resources.files("osler.metrics").joinpath("data")
MAPS = ("clinic", "i2b2-2014", "meddocan")


@dataclass(frozen=True)
class PhiLabels:
    """Labels by Safe Harbor category, and labels that a corpus marks although Safe Harbor does not list them."""

    safe_harbor: Mapping[str, str]
    beyond: Mapping[str, str]

    def holds(self, label: str) -> bool:
        """Whether the label is PHI."""
        return label in self.safe_harbor or label in self.beyond


@cache
def categories() -> dict[str, str]:
    """The eighteen Safe Harbor categories, short name to title, in the order of the rule."""
    table: dict[str, str] = tomllib.loads(_DATA.joinpath("safe_harbor.toml").read_text("utf-8"))["categories"]
    return table


def phi_labels(source: str | Path) -> PhiLabels:
    """The map of a known corpus by name, or one of your own from a TOML file with tables `safe_harbor` and `beyond`."""
    if isinstance(source, str) and source in MAPS:
        return _checked(tomllib.loads(_DATA.joinpath(f"{source}.toml").read_text("utf-8")), source)
    path = Path(source)
    if not path.is_file():
        near = nearest(str(source), MAPS)
        hint = f"Did you mean {near!r}? " if near else ""
        raise UnknownNameError(
            f"no map of PHI labels named {str(source)!r}", fix=f"{hint}Use {', '.join(MAPS)} or the path of a TOML file"
        )
    try:
        return _checked(tomllib.loads(path.read_text("utf-8")), path)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError("not a TOML file in UTF-8", where=path) from error


def _checked(tables: dict[str, Any], where: str | Path) -> PhiLabels:
    safe_harbor, beyond = tables.get("safe_harbor", {}), tables.get("beyond", {})
    for label, category in safe_harbor.items():
        if category not in categories():
            near = nearest(str(category), categories())
            raise InputError(
                f"unknown Safe Harbor category {category!r} for {label}",
                where=where,
                fix=f"Did you mean {near!r}?" if near else f"Use one of {', '.join(categories())}",
            )
    if both := sorted(set(safe_harbor) & set(beyond)):
        raise InputError(f"{both[0]} stands in both tables", where=where, fix="Keep it in one of them")
    return PhiLabels(safe_harbor, beyond)
