"""FLOPs and memory of a model, by formula."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


def flops_per_token(config: Any, *, length: float, masked_fraction: float = 0.0, backward: bool = True) -> float:
    """Operations a token costs in a Hugging Face encoder of this configuration.

    `length` is the number of tokens a token attends to: the sequence length, or for packed sequences of unequal
    lengths the sum of their squares over their sum. `masked_fraction` 0 leaves the language-model head out.
    """
    width, layers = config.hidden_size, config.num_hidden_layers
    inner = getattr(config, "intermediate_size", None) or config.hidden_dim
    gates = 3 if config.model_type == "modernbert" else 2
    weights = layers * (4 * width * width + gates * width * inner)
    embedding = getattr(config, "embedding_size", None) or width
    if embedding != width:
        weights += embedding * width
    keys = sum(_keys(config, layer, length) for layer in range(layers))
    attention = 2 * width * keys
    head = masked_fraction * (width * embedding + embedding * config.vocab_size)
    forward = 2 * (weights + attention + head)
    return float(forward * (3 if backward else 1))


def _keys(config: Any, layer: int, length: float) -> float:
    kinds = getattr(config, "layer_types", None)
    if kinds and kinds[layer] == "sliding_attention":
        return min(length, 2.0 * int(config.sliding_window) + 1)
    return length


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
