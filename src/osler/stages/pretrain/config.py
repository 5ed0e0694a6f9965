"""The recipe of pretraining."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from osler.core.config import Recipe, runtime
from osler.train.config import TrainConfig


class Masking(Recipe):
    """The masked language model objective. Evaluation always masks 15 %, whatever the training rate."""

    rate: float = Field(0.15, gt=0.0, lt=1.0)
    mask_share: float = Field(0.8, ge=0.0, le=1.0)
    random_share: float = Field(0.1, ge=0.0, le=1.0)


class PretrainRecipe(Recipe):
    """An encoder from a corpus and a tokenizer: from random weights, or onward from a checkpoint."""

    corpus: Path = runtime()
    """A corpus artifact."""
    tokenizer: Path = runtime()
    """A tokenizer folder."""
    tokens: Path | None = runtime(None)
    """Where the tokenised corpus is kept for the next run; by default beside --out."""
    start_from: Path | None = runtime(None)
    """A checkpoint to continue from; without it the preset starts from random weights."""
    preset: Literal["tiny", "small", "compact", "base", "large", "modern"] = "compact"
    max_length: int = Field(512, ge=8)
    batch_tokens: int = Field(32_768, ge=64)
    """Tokens in one micro-batch, all of them real: documents are laid end to end."""
    accumulate: int = Field(1, ge=1)
    """Micro-batches in one update, over all processes."""
    validation_share: float = Field(0.01, gt=0.0, lt=0.5)
    """The share of documents kept for validation, chosen by their text."""
    validation_tokens: int = Field(200_000, ge=100)
    """At most so many tokens are used for each validation."""
    masking: Masking = Masking()
    train: TrainConfig
