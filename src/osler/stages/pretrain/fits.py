"""Whether what comes from elsewhere goes with the recipe: a tokenizer with its special tokens; a checkpoint or a teacher with whole
weights, its vocabulary, and how much it reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from osler.core.errors import ArtifactError, RecipeError
from osler.nn.layout import Layout
from osler.nn.quiet import quiet
from osler.tasks.mlm.vocabulary import Vocabulary
from osler.tasks.tokens import Tokens


def load_vocabulary(folder: Path) -> Vocabulary:
    """The vocabulary of a tokenizer folder, which must have what masking needs."""
    tokens = Tokens.load(folder)
    try:
        return Vocabulary.of(tokens)
    except ArtifactError as error:
        raise ArtifactError(error.problem, where=folder / "tokenizer.json", fix=error.fix) from None


def tokens_apart(known: Mapping[str, int], wanted: Mapping[str, int]) -> int:
    """How many tokens of the wanted vocabulary the known one lacks or numbers otherwise."""
    return sum(known.get(token) != number for token, number in wanted.items())


def check_whole(folder: Path) -> None:
    """Refuse weights that a copy or a download has cut short; reads no more than where each tensor lies."""
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, "pt"):
                pass
        except (OSError, SafetensorError) as error:
            raise ArtifactError(
                "this file of weights is damaged or not whole", where=path, fix="Copy or download the model again"
            ) from error


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
