"""Whether a model from elsewhere, a checkpoint or a teacher, goes with the recipe: its vocabulary and how much it reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from osler.core.errors import RecipeError
from osler.nn.layout import Layout
from osler.nn.quiet import quiet


def tokens_apart(known: Mapping[str, int], wanted: Mapping[str, int]) -> int:
    """How many tokens of the wanted vocabulary the known one lacks or numbers otherwise."""
    return sum(known.get(token) != number for token, number in wanted.items())


def check_room(who: str, max_length: int, folder: Path, config: Any) -> None:
    """Refuse sequences longer than the model reads."""
    from transformers import AutoModelForMaskedLM

    auto: Any = AutoModelForMaskedLM
    with torch.device("meta"), quiet():
        room = Layout.of(auto.from_config(config).base_model).max_length
    if max_length > room:
        raise RecipeError(
            f"the {who} reads {room} tokens, max_length is {max_length}",
            where=folder,
            fix=f"Set max_length to {room} or less",
        )
