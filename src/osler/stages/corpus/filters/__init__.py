"""Filters: each looks at one document and says why it should go, or nothing.

A filter is one file here with one class: its fields are its options in a recipe, its `reason` the judgement. A reason
names the option that would have to change to keep the document.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from osler.core.config import Recipe
from osler.core.registry import Registry

if TYPE_CHECKING:
    from osler.stages.corpus.documents import RepairedDocument

FILTERS = Registry("filters", {"length": "osler.stages.corpus.filters.length:Length"})


class Filter(Recipe, ABC):
    """Base of every filter."""

    @abstractmethod
    def reason(self, document: RepairedDocument) -> str | None:
        """A short code, best the name of the option that decided, or None to keep the document."""
