"""Filters: each returns a reason to remove a document, or None.

To add one, write a module here with a `Filter` class and register it below. Its fields are its options in a recipe.
A reason names the option that would have to change to keep the document.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from osler.core.config import Recipe
from osler.core.registry import Registry

if TYPE_CHECKING:
    from osler.stages.corpus.documents import RepairedDocument

FILTERS = Registry(
    "filters",
    {
        "alphabet": "osler.stages.corpus.filters.alphabet:Alphabet",
        "blocked_words": "osler.stages.corpus.filters.blocked_words:BlockedWords",
        "code": "osler.stages.corpus.filters.code:Code",
        "digits": "osler.stages.corpus.filters.digits:Digits",
        "error_pages": "osler.stages.corpus.filters.error_pages:ErrorPages",
        "language": "osler.stages.corpus.filters.language:Language",
        "length": "osler.stages.corpus.filters.length:Length",
        "symbols": "osler.stages.corpus.filters.symbols:Symbols",
        "terms": "osler.stages.corpus.filters.terms:Terms",
        "uppercase": "osler.stages.corpus.filters.uppercase:Uppercase",
    },
)


class Filter(Recipe, ABC):
    """Base of every filter."""

    def check(self) -> None:
        """Raise early on anything that would stop the filter later, such as an unreadable list."""

    @abstractmethod
    def reason(self, document: RepairedDocument) -> str | None:
        """Return a short reason, such as the name of the option that decided, or None to keep the document."""
