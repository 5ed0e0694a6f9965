"""The memory a GPU needs for a recipe, by formula: what a plan says before anything has run.

By this formula and measured on an H200 with torch.compile, in GiB: RoBERTa-base with 65,536 tokens in a micro-batch 24.9 and 22.4, with
32,768 13.5 and 12.3; RoBERTa-large with 16,384 19.6 and 19.1. The bytes of a score (8) were set when
the first of these took 24.4, in an earlier version. fp32, Muon and a teacher were not measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_FP32, _BF16 = 4, 2


@dataclass(frozen=True)
class Memory:
    """Bytes on one GPU when every GPU holds the whole model."""

    weights: int
    gradients: int
    optimiser: int
    activations: int
    head: int
    teacher: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return self.sharded(1)

    def sharded(self, gpus: int) -> int:
        """What one of several GPUs holds when they share weights, gradients and optimiser states (fsdp)."""
        return (self.weights + self.gradients + self.optimiser) // gpus + self.activations + self.head + self.teacher


def memory_of(
    config: Any,
    *,
    parameters: int,
    optimiser_values: int,
    batch_tokens: int,
    masked: float,
    half: bool,
    teacher_parameters: int = 0,
) -> Memory:
    """The memory of training with micro-batches of so many tokens, a share of them masked; `half`: autocast to bf16."""
    value = _BF16 if half else _FP32
    width, inner = config.hidden_size, getattr(config, "intermediate_size", None) or config.hidden_dim
    # What a layer keeps for the backward pass. Of its width: input, three projections, what attention makes of them, its
    # projection, the feed-forward result, two norms. Of the inner width: what goes into the activation and comes out.
    kept = 9 * width + (3 if config.model_type == "modernbert" else 2) * inner
    stored = _FP32 + (_BF16 if half else 0)  # autocast keeps a copy for the length of a pass
    scores = int(masked * batch_tokens) * config.vocab_size
    return Memory(
        weights=stored * parameters,
        gradients=_FP32 * parameters,
        optimiser=_FP32 * optimiser_values,
        activations=value * kept * config.num_hidden_layers * batch_tokens,
        # Scores, the same in fp32 for the loss, and their gradient.
        head=(value + _FP32 + value) * scores,
        # Its weights, and its distribution at the masked positions beside its scores.
        teacher=stored * teacher_parameters + ((value + _FP32) * scores if teacher_parameters else 0),
    )
