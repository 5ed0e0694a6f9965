"""Choices at the edge of a grid: what lies beyond it was not tried, so the grid should be widened there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from osler.train.config import TrainConfig

Edge = Literal["lowest", "highest"]

MARKS: dict[Edge, str] = {"lowest": "↓", "highest": "↑"}
_BEYOND: dict[Edge, str] = {"lowest": "smaller", "highest": "larger"}


def edges(chosen: Mapping[str, Any], tried: Iterable[Mapping[str, Any]]) -> dict[str, Edge]:
    """By setting: whether the chosen grid point has the smallest or largest of the numbers that were tried."""
    points = list(tried)
    found: dict[str, Edge] = {}
    for name, value in chosen.items():
        values: list[Any] = [point.get(name) for point in points]
        if not all(_is_number(item) for item in [value, *values]) or len(set(values)) < 2:
            continue
        if value == min(values) and value > _end(value):
            found[name] = "lowest"
        elif value == max(values) and value < _largest(name):
            found[name] = "highest"
    return found


def edge_text(found: Iterable[tuple[str, Edge]]) -> str:
    """What the marks mean and what to do, for settings (by the name that a table shows) and their edges; empty where there are none."""
    said = [
        f"{MARKS[edge]} {name} was chosen at the {edge} value of the grid: {_BEYOND[edge]} ones may do better."
        for name, edge in dict.fromkeys(found)
    ]
    return " ".join([*said, "Widen the grid there; only the new runs are done."]) if said else ""


def _end(value: float) -> float:
    """Where settings end below: no count (epochs, texts of a batch) is less than one, and nothing less than zero."""
    return 1 if isinstance(value, int) else 0


def _largest(name: str) -> float:
    """Where a setting of the training loop ends above: a share (layer_decay) at one. Of other settings nothing is known here."""
    section, _, last = name.rpartition(".")
    field = TrainConfig.model_fields.get(last) if section == "train" else None
    ends = [getattr(item, "le", None) for item in (field.metadata if field else ())]
    return next((float(end) for end in ends if end is not None), math.inf)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
