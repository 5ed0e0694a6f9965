"""Rewriters: each removes passages from a text or replaces characters in it.

To add one, write a module here with a `Rewriter` class and register it below. Its fields are its options in a recipe.
The reason of a removal names the option that would have to change to keep the passage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from osler.core.config import Recipe
from osler.core.registry import Registry

REWRITERS = Registry(
    "rewriters",
    {
        "markup": "osler.stages.corpus.rewriters.markup:Markup",
        "masks": "osler.stages.corpus.rewriters.masks:Masks",
        "normalise": "osler.stages.corpus.rewriters.normalise:Normalise",
        "repeated_lines": "osler.stages.corpus.rewriters.repeated_lines:RepeatedLines",
        "sentences": "osler.stages.corpus.rewriters.sentences:Sentences",
        "whitespace": "osler.stages.corpus.rewriters.whitespace:Whitespace",
    },
)


@dataclass(frozen=True, slots=True)
class Removal:
    """A removed passage, line or sentence: the reason, and how many characters it had."""

    reason: str
    characters: int


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A text after a rewriter. `removed` is empty if only characters were replaced."""

    text: str
    removed: tuple[Removal, ...] = ()


class Rewriter(Recipe, ABC):
    """Base of every rewriter."""

    def check(self) -> None:
        """Raise early on anything that would stop the rewriter later, such as a missing package."""

    @abstractmethod
    def rewrite(self, text: str, language: str | None) -> Rewritten:
        """Return the rewritten text and what was removed from it."""
