"""The recipe of the vocab stage."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from osler.core.config import Recipe, runtime


class VocabRecipe(Recipe):
    """Which sub-words to learn, and from what."""

    corpus: Path = runtime()
    """The folder of a corpus artifact."""
    algorithm: Literal["bpe", "wordpiece", "unigram"] = "bpe"
    """Byte-level BPE as in RoBERTa, WordPiece as in BERT, or a unigram language model as in XLM-R."""
    size: int = Field(50_262, ge=16)
    """Entries of the vocabulary, special tokens included."""
    min_frequency: int = Field(2, ge=1)
    """How often a pair must occur to be merged (BPE, WordPiece)."""
    prefix_space: bool = False
    """Treat the first word of a text like one after a blank (BPE; the others always do)."""
    max_length: int = Field(512, ge=8)
    """The length in sub-words that the folder names as the model's maximum."""
    sample_documents: int = Field(2_000, ge=1)
    """How many documents, evenly spaced, the statistics are taken on."""


class CompareRecipe(Recipe):
    """Which tokenizers to compare, and on what."""

    tokenizers: tuple[Path, ...] = runtime()
    """Hugging Face tokenizer folders, or tokenizer.json files."""
    corpus: Path = runtime()
    """The folder of a corpus artifact."""
    terms: Path | None = runtime(None)
    """A text file with one term a line; without it medical terms are found in the corpus by their parts."""
    sample_documents: int = Field(2_000, ge=1)
    """How many documents, evenly spaced, are counted."""
    min_documents: int = Field(5, ge=1)
    """A term is shown only where at least so many of these documents have it."""
    shown_terms: int = Field(20, ge=1)
    """How many terms a list shows."""

    @field_validator("tokenizers")
    @classmethod
    def _several(cls, value: tuple[Path, ...]) -> tuple[Path, ...]:
        if len(value) < 2:
            raise ValueError("a comparison needs two tokenizers or more")
        return value
