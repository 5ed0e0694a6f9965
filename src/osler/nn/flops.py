"""The work a token costs: floating-point operations of one forward and backward pass, for meters and plans.

A multiplication with a weight costs 2 operations forward and 4 backward. Only work that must be done counts: the
language-model head on the masked share of the positions, and attention over the keys a token really sees.
"""

from __future__ import annotations

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
