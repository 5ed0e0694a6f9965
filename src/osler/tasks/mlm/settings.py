"""The settings of masked language modelling."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from osler.core.config import Recipe


class Masking(Recipe):
    """The masked language model objective. Evaluation always masks 15 % of the sub-words, whatever training does."""

    rate: float = Field(0.15, gt=0.0, lt=1.0)
    unit: Literal["subword", "word"] = "subword"
    """Whether sub-words are masked one by one, or all sub-words of a word together."""
    mask_share: float = Field(0.8, ge=0.0, le=1.0)
    random_share: float = Field(0.1, ge=0.0, le=1.0)
