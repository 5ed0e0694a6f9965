"""The recipe of the vocab stage."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

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
