"""FLOPs and memory of a model, by formula."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_FP32, _BF16 = 4, 2


def inner_width(config: Any) -> int:
    """Return the feed-forward width, which DistilBERT calls `hidden_dim`."""
    return int(getattr(config, "intermediate_size", None) or config.hidden_dim)


def flops_per_token(config: Any, *, length: float, masked_fraction: float = 0.0, backward: bool = True) -> float:
    """Return the FLOPs per token of a Hugging Face encoder with this configuration.

    `length` is the number of tokens that a token attends to: the sequence length or, for packed sequences of different
    lengths, the sum of their squares over their sum. A `masked_fraction` of 0 leaves out the language-model head.
    """
    width, layers = config.hidden_size, config.num_hidden_layers
    gates = 3 if config.model_type == "modernbert" else 2
    weights = layers * (4 * width * width + gates * width * inner_width(config))
    embedding = getattr(config, "embedding_size", None) or width
    if embedding != width:
        weights += embedding * width
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * layers
    window = min(length, 2.0 * int(config.sliding_window) + 1) if "sliding_attention" in kinds else length
    keys = sum(window if kinds[layer] == "sliding_attention" else length for layer in range(layers))
    attention = 2 * width * keys
    head = masked_fraction * (width * embedding + embedding * config.vocab_size)
    forward = 2 * (weights + attention + head)
    return float(forward * (3 if backward else 1))


@dataclass(frozen=True)
class Memory:
    """Bytes per GPU when every GPU holds the full model."""

    weights: int
    gradients: int
    optimiser: int
    activations: int
    head: int
    teacher: int = 0

    @property
    def total(self) -> int:
        return self.sharded(1)

    def sharded(self, gpus: int) -> int:
        """Bytes per GPU when the GPUs share weights, gradients and optimiser state (fsdp)."""
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
    """Estimate the memory of training. `masked` is the masked share of a micro-batch, `half` means autocast to bf16."""
    value = _BF16 if half else _FP32
    # Kept by each layer for the backward pass. Of the layer's width: its input, three projections, the attention output and its
    # projection, the feed-forward output, two norms. Of the inner width: input and output of the activation.
    kept = 9 * config.hidden_size + (3 if config.model_type == "modernbert" else 2) * inner_width(config)
    stored = _FP32 + (_BF16 if half else 0)  # autocast keeps a copy for the duration of a pass
    scores = int(masked * batch_tokens) * config.vocab_size
    return Memory(
        weights=stored * parameters,
        gradients=_FP32 * parameters,
        optimiser=_FP32 * optimiser_values,
        activations=value * kept * config.num_hidden_layers * batch_tokens,
        # The scores, their fp32 copy for the loss, and their gradient.
        head=(value + _FP32 + value) * scores,
        # Its weights, its scores and its distribution at the masked positions.
        teacher=stored * teacher_parameters + ((value + _FP32) * scores if teacher_parameters else 0),
    )
