"""The ways to learn a vocabulary: one file each, with one function `train`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, cast

from osler.stages.vocab.config import VocabRecipe

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Texts = Callable[[], Iterable[list[str]]]
"""Starts a pass over the corpus: batches of texts, in order and in NFC.

A tokenizer gets its NFC normaliser only after training: these texts need none, and counting words without it takes half the
time. Text that the tokenizer meets later is normalised by it; offsets stay those of the text as given.
"""


def train(texts: Texts, recipe: VocabRecipe) -> Tokenizer:
    """Learn a vocabulary by the algorithm that the recipe names."""
    module = import_module(f"{__name__}.{recipe.algorithm}")
    return cast("Tokenizer", module.train(texts, recipe))
