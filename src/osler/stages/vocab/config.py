"""Recipes of the vocab stage."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from osler.core.config import Recipe, runtime


class VocabRecipe(Recipe):
    """Recipe of a tokenizer."""

    later: ClassVar = ("lowercase", "weighted")

    corpus: Path = runtime()
    """Corpus folder."""
    algorithm: Literal["bpe", "wordpiece", "unigram"] = "bpe"
    """Byte-level BPE as in RoBERTa, WordPiece as in BERT, or a unigram language model as in XLM-R."""
    size: int = Field(50_262, ge=16)
    """Vocabulary entries, special tokens included."""
    min_frequency: int = Field(2, ge=1)
    """Minimum frequency of a pair to be merged (BPE, WordPiece)."""
    prefix_space: bool = False
    """Treat the first word of a text like a word after a space (BPE; the others always do)."""
    lowercase: bool = False
    """Lower-case all text and remove accents, as BERT's uncased models do (WordPiece)."""
    weighted: bool = False
    """Count each source's text as often as its weight on the corpus card (wada2020's amplified vocabulary)."""
    max_length: int = Field(512, ge=8)
    """Maximum length in sub-words, as stated in the tokenizer folder."""
    sample_documents: int = Field(2_000, ge=1)
    """Number of evenly spaced documents to measure statistics on."""

    @model_validator(mode="after")
    def _lower_case_is_bert_s(self) -> Self:
        if self.lowercase and self.algorithm != "wordpiece":
            raise ValueError(f"lowercase is for algorithm = 'wordpiece', not {self.algorithm!r}")
        return self


class CompareRecipe(Recipe):
    """Recipe of a comparison of tokenizers on a corpus."""

    tokenizers: tuple[Path, ...] = runtime()
    """Hugging Face tokenizer folders, or tokenizer.json files."""
    corpus: Path = runtime()
    """Corpus folder."""
    terms: Path | None = runtime(None)
    """Text file with one term per line; by default, words of the corpus with medical stems or endings."""
    sample_documents: int = Field(2_000, ge=1)
    """Number of evenly spaced documents to count words in."""
    min_documents: int = Field(5, ge=1)
    """Show only terms that occur in at least this many of these documents."""
    shown_terms: int = Field(20, ge=1)
    """Terms per list."""

    @field_validator("tokenizers")
    @classmethod
    def _several(cls, value: tuple[Path, ...]) -> tuple[Path, ...]:
        if len(value) < 2:
            raise ValueError("a comparison needs two tokenizers or more")
        return value
