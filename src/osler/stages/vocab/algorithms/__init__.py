"""Algorithms that train a vocabulary: one module each, with a function `train(texts, recipe)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import cast

from tokenizers import AddedToken, Tokenizer
from tokenizers.processors import TemplateProcessing

from osler.artifacts.tokenizer import BEGIN, END, MASK, SPECIAL_TOKENS
from osler.stages.vocab.config import VocabRecipe

Texts = Callable[[], Iterable[list[str]]]
"""Starts a pass over the corpus: batches of texts, in order, normalised to NFC.

A tokenizer gets its own NFC normaliser only after training: these texts do not need it, and without it counting words takes
half the time. Text that the tokenizer sees later is normalised by it; offsets refer to the text as given.
"""
IDS = {token: number for number, token in enumerate(SPECIAL_TOKENS)}


def train(texts: Texts, recipe: VocabRecipe) -> Tokenizer:
    """Train a vocabulary with the algorithm of the recipe."""
    return cast(Tokenizer, import_module(f"{__name__}.{recipe.algorithm}").train(texts, recipe))


def special_tokens() -> list[AddedToken]:
    """Return the special tokens in the library's form. The mask includes the space before it, as it stands for a word."""
    return [AddedToken(token, lstrip=token == MASK, normalized=False, special=True) for token in SPECIAL_TOKENS]


def framing(*, segments: bool = False) -> TemplateProcessing:
    """Put `<s> text </s>` around a text, and `<s> text </s></s> other </s>` around a pair.

    With `segments` the second text of a pair has segment 1, as in BERT; models without segments ignore it.
    """
    second = f"$B:1 {END}:1" if segments else f"$B {END}"
    return TemplateProcessing(
        single=f"{BEGIN} $A {END}",
        pair=f"{BEGIN} $A {END} {END} {second}",
        special_tokens=[(BEGIN, IDS[BEGIN]), (END, IDS[END])],
    )
