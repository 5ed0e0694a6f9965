"""Recipes of the serve stage: annotate files, export a head."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from osler.core.config import Recipe, runtime


class AnnotateOptions(Recipe):
    """What to annotate, and what to keep of it."""

    heads: tuple[str, ...] = ()
    """Heads to use; by default all that read documents (or pairs, if the input is pairs)."""
    language: str | None = None
    """Use only heads for this language; a bundle may have an English and a Spanish head for the same entities."""
    min_score: float = Field(0.0, ge=0.0, le=1.0)
    """Leave out entities and relations with a lower score."""
    attributes: Literal["both", "rules", "head", "off"] = "both"
    """How to find out whether an entity is negated, possible, hypothetical, historical or someone else's: by rules (English,
    Spanish and French), by the attribute heads of the bundle, or both, where an attribute holds if either says so. With both,
    what the bundle or the language does not have is left out."""


class AnnotateRecipe(AnnotateOptions):
    """Annotate files with a bundle.

    `encoding`, `text_columns` and `id_column` decide what is read, so they count as part of the inputs, not of the recipe.
    """

    files: tuple[Path, ...] = runtime(min_length=1)
    """Text files (one note each), JSON Lines, CSV or TSV files (one note or pair of texts per line), folders of text and
    JSON Lines files, or - for standard input (one note, or JSON Lines)."""
    bundle: Path = runtime()
    """A bundle folder."""
    format: Literal["jsonl", "brat"] = "jsonl"
    """jsonl or brat."""
    text_columns: tuple[str, ...] = runtime((), max_length=2)
    """The column of a CSV or TSV file, or key of JSON Lines, that holds the text; give two for pairs of texts. By default
    text, note, sentence or document; for pairs first and second, text_a and text_b, sentence1 and sentence2, or premise and
    hypothesis."""
    id_column: str | None = runtime(None)
    """The column or key that holds the id of a note. By default id, index or guid, else notes are numbered."""
    encoding: str | None = runtime(None)
    """How to read files that are not UTF-8, for example latin-1. By default they are skipped."""
    batch: int = runtime(64, ge=1)
    """Documents per batch."""
    device: str = runtime("auto", description="auto, cpu, cuda or cuda:N")

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, name: str | None) -> str | None:
        try:
            return name if name is None else codecs.lookup(name).name
        except LookupError:
            raise ValueError(f"unknown encoding {name!r}; common ones are latin-1, cp1252 and utf-16") from None


class ExportRecipe(Recipe):
    """Export one head of a bundle."""

    bundle: Path = runtime()
    """A bundle folder."""
    head: str | None = None
    """The head to export; not needed if the bundle has only one."""
    to: Literal["hf"] = "hf"
    """The target: hf, a stock Hugging Face model."""
