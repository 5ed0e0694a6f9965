"""A finished run as its report and its model card describe it.

Nothing in it comes from a clock or names a place on disk: two runs that compute the same are described by the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from osler.core.artifact import Artifact
from osler.stages.pretrain.config import PretrainRecipe
from osler.stages.pretrain.weights import source_weights, sources_on_card


@dataclass(frozen=True)
class Source:
    """One source of the corpus, as its card has it."""

    name: str
    language: str
    licence: str
    documents: int
    words: int
    weight: float
    """How often it was read, relative to once an epoch."""


@dataclass(frozen=True)
class Outcome:
    """What was trained, on what, and what came of it."""

    recipe: PretrainRecipe
    config: Any
    """The Hugging Face configuration of the model."""
    vocabulary: int
    corpus: Artifact
    tokenised: Mapping[str, Any]
    """The counts of the tokenised corpus."""
    counts: Mapping[str, Any]
    """The counts of the run."""
    history: Sequence[Mapping[str, Any]]
    flops_per_token: float
    epoch_tokens: int
    """Tokens of one epoch as training reads it: special tokens included, each source as often as its weight says."""

    def sources(self) -> list[Source]:
        """Where the text is from; empty for a corpus without a card."""
        found = sources_on_card(self.corpus)
        if found is None:
            return []
        weights = source_weights(self.corpus, self.recipe.source_weights)
        return [
            Source(
                name,
                facts.get("language") or "not stated",
                facts.get("licence") or "not stated",
                facts["documents"],
                facts["words"],
                weights[name],
            )
            for name, facts in found.items()
        ]

    def series(self, kind: str, name: str) -> list[tuple[float, float]]:
        """A value of the history by update."""
        return [
            (record["step"], record[name])
            for record in self.history
            if record["kind"] == kind and record.get(name) is not None
        ]

    @property
    def flops(self) -> float:
        """The work of the whole run."""
        return float(self.counts["tokens_seen"] * self.flops_per_token)

    @property
    def epochs(self) -> float:
        """How often the training text was read."""
        return float(self.counts["tokens_seen"] / max(1, self.epoch_tokens))

    @property
    def best_step(self) -> int:
        """The update whose weights were kept; the last one where no validation gave a number."""
        return int(self.counts["best_step"] or self.counts["steps"])

    @property
    def skipped(self) -> int:
        """Updates left out because loss or gradient was not finite, or the gradient a spike."""
        counted = [record.get("skipped", 0) for record in self.history if record["kind"] == "train"]
        return int(counted[-1]) if counted else 0

    @property
    def start(self) -> str:
        """What the weights were before the first update."""
        recipe = self.recipe
        if recipe.distill and recipe.distill.teacher_layers is not None:
            return "from layers of the teacher"
        if recipe.start_from:
            swapped = ", its embeddings carried over to a new vocabulary" if recipe.swap_vocabulary else ""
            return f"onward from a checkpoint{swapped}"
        return "from random weights"

    @property
    def shape(self) -> str:
        """The architecture in one line."""
        config = self.config
        inner = getattr(config, "intermediate_size", None) or config.hidden_dim
        return (
            f"{config.model_type}: {config.num_hidden_layers} layers of width {config.hidden_size}, "
            f"{config.num_attention_heads} heads, inner width {inner:,}"
        )

    @property
    def masking(self) -> str:
        """The objective in one line."""
        masking = self.recipe.masking
        unit = "whole words" if masking.unit == "word" else "sub-words one by one"
        kept = 1 - masking.mask_share - masking.random_share
        return (
            f"{masking.rate:.0%} of the sub-words in training (15% in validation), chosen as {unit}; of them "
            f"{masking.mask_share:.0%} masked, {masking.random_share:.0%} random, {kept:.0%} kept"
        )

    @property
    def distillation(self) -> str:
        """Teacher and weights in one line; empty without a teacher."""
        settings = self.recipe.distill
        if settings is None:
            return ""
        top = f", its {settings.top_k} likeliest tokens" if settings.top_k else ""
        return (
            f"{settings.mlm:g} x masked tokens + {settings.kl:g} x divergence from the teacher at temperature "
            f"{settings.temperature:g}{top} + {settings.cosine:g} x alignment of last hidden states"
        )

    @property
    def optimiser(self) -> str:
        """Optimiser and schedule in one line."""
        train = self.recipe.train
        warmup = f"{train.warmup:,} updates" if isinstance(train.warmup, int) else f"{train.warmup:.0%} of the run"
        return (
            f"{train.optimizer}, peak rate {train.lr:g}, {train.schedule} schedule, warm-up {warmup}, "
            f"betas {train.betas[0]:g} and {train.betas[1]:g}, eps {train.eps:g}, decay {train.weight_decay:g}, clip {train.clip:g}"
        )
