"""How deep in an encoder each parameter lies, read from the names and modules that all Hugging Face encoders have in common.

Layers are numbered: the first number in a parameter's name is its layer. What has no number is of the embeddings if it belongs to an
embedding table or to a module named like one (its norm, its projection), and otherwise stands behind the layers, as a last norm does.
An encoder whose layers share their weights (ALBERT) has one layer here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import nn

EMBEDDINGS = -1
"""The depth of the embeddings: below layer 0."""

BEHIND = math.inf
"""The depth of what stands behind the last layer."""


def depths(module: nn.Module) -> dict[str, float]:
    """The layer of every parameter by name; heads (below `heads`) and other things without a layer are behind all of them."""
    tables = {name for name, part in module.named_modules() if isinstance(part, nn.Embedding)}
    return {name: _depth(name, tables) for name, _ in module.named_parameters()}


def count_layers(known: Mapping[str, float]) -> int:
    """How many numbered layers there are."""
    return int(max((depth for depth in known.values() if depth != BEHIND), default=EMBEDDINGS)) + 1


def _depth(name: str, tables: set[str]) -> float:
    path = name.split(".")
    if "heads" in path:
        return BEHIND
    number = next((int(part) for part in path if part.isdigit()), None)
    if number is not None:
        return number
    named = any(part.startswith("embedding") or part.endswith("embeddings") for part in path)
    return EMBEDDINGS if named or name.rpartition(".")[0] in tables else BEHIND
