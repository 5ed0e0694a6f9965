"""The points of a study's grid, and choices at its edge."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from osler.train.config import TrainConfig

Edge = Literal["lowest", "highest"]
MARKS: dict[Edge, str] = {"lowest": "↓", "highest": "↑"}


def points(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return all combinations of a grid, or one empty point without a grid."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def nested(name: str, value: Any) -> dict[str, Any]:
    """Expand a dotted name into sections: train.lr becomes {"train": {"lr": value}}."""
    for part in reversed(name.split(".")):
        value = {part: value}
    return dict(value)


def edges(chosen: Mapping[str, Any], tried: Iterable[Mapping[str, Any]]) -> dict[str, Edge]:
    """Return settings of the chosen point at the lowest or highest value tried, where a wider grid could go beyond it."""
    tried = list(tried)
    found: dict[str, Edge] = {}
    for name, value in chosen.items():
        values: list[Any] = [point.get(name) for point in tried]
        if not all(is_number(item) for item in [value, *values]) or len(set(values)) < 2:
            continue
        # Counts (epochs, batch sizes) end at 1, everything else at 0.
        if value == min(values) and value > (1 if isinstance(value, int) else 0):
            found[name] = "lowest"
        elif value == max(values) and value < _upper_bound(name):
            found[name] = "highest"
    return found


def edge_text(found: Iterable[tuple[str, Edge]]) -> str:
    """Explain the edge marks of a table from setting names and edges; empty if there are none."""
    beyond = {"lowest": "lower", "highest": "higher"}
    texts = [
        f"{MARKS[edge]} {name} was chosen at the {edge} value of the grid: {beyond[edge]} values may do better."
        for name, edge in dict.fromkeys(found)
    ]
    return " ".join([*texts, "Widen the grid there; only the new runs are done."]) if texts else ""


def is_number(value: object) -> bool:
    """Whether a setting is a number; booleans are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _upper_bound(name: str) -> float:
    """Return the largest valid value of a training setting, such as 1 for layer_decay."""
    section, _, last = name.rpartition(".")
    field = TrainConfig.model_fields.get(last) if section == "train" else None
    bounds = [getattr(item, "le", None) for item in (field.metadata if field else ())]
    return next((float(bound) for bound in bounds if bound is not None), math.inf)
