"""The model card of a pretrained encoder, generated from the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osler.core.artifact import Artifact
from osler.stages.pretrain.config import PretrainRecipe


def model_card(recipe: PretrainRecipe, shards: Artifact, counts: Mapping[str, Any]) -> str:
    """README.md of the encoder folder."""
    tokens = shards.manifest.counts
    start = "continued from a checkpoint" if recipe.start_from else f"from random weights (preset `{recipe.preset}`)"
    return f"""---
library_name: transformers
pipeline_tag: fill-mask
tags: [biomedical, clinical, osler]
---

# Encoder pretrained with osler

A masked language model trained {start}. Load it with stock `transformers`: `AutoModelForMaskedLM.from_pretrained(folder)`.

| | |
|---|---|
| parameters | {counts["parameters"]:,} |
| training text | {tokens["train_documents"]:,} documents, {tokens["train_tokens"]:,} tokens |
| held out | {tokens["validation_documents"]:,} documents, {tokens["validation_tokens"]:,} tokens |
| tokens seen | {counts["tokens_seen"]:,} in {counts["steps"]:,} updates |
| context | {recipe.max_length} tokens, documents packed without padding, no attention across their borders |
| masking | {recipe.masking.rate:.0%} in training, 15% in validation, 80/10/10 |
| optimiser | {recipe.train.optimizer}, peak rate {recipe.train.lr:g}, {recipe.train.schedule} schedule |
| validation loss | {counts["validation_loss"]:.4f} (perplexity {counts["perplexity"]:.2f}), at update {counts["best_step"]:,} |

The validation documents were chosen by a hash of their text and never trained on. A model can memorise what it was trained on:
if the corpus holds patients' notes, treat these weights as confidential too.
"""
