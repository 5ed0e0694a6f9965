"""Tiny models of every architecture, with weights large enough that a mistake shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

_SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 66,
}
_MORE: dict[str, dict[str, Any]] = {
    "bert": {"pad_token_id": 0, "type_vocab_size": 2},
    # The papers' RoBERTa-like models know one token type only.
    "roberta": {"pad_token_id": 1, "type_vocab_size": 1},
    "xlm-roberta": {"pad_token_id": 1, "type_vocab_size": 1},
    "camembert": {"pad_token_id": 1, "type_vocab_size": 1},
    "electra": {"pad_token_id": 0, "type_vocab_size": 2, "embedding_size": 16},
    "albert": {"pad_token_id": 0, "type_vocab_size": 2, "embedding_size": 16},
    # Windows of 4 tokens to each side, shorter than the documents of the tests.
    "modernbert": {"pad_token_id": 1, "cls_token_id": 2, "sep_token_id": 3, "local_attention": 8},
    "mpnet": {"pad_token_id": 1},
    "deberta-v2": {
        "pad_token_id": 0,
        "type_vocab_size": 2,
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "max_relative_positions": 16,
    },
}


class Tiny:
    """Makes small stock models and runs them without any code of ours."""

    vocab = 120

    def config(self, kind: str) -> Any:
        """A configuration of three layers."""
        from transformers import AutoConfig, DistilBertConfig

        if kind == "distilbert":
            return DistilBertConfig(
                vocab_size=self.vocab, dim=32, n_layers=3, n_heads=4, hidden_dim=64, max_position_embeddings=66
            )
        return AutoConfig.for_model(kind, vocab_size=self.vocab, **_SIZES, **_MORE[kind])

    def model(self, kind: str, auto: str = "AutoModel") -> Any:
        """A stock model in evaluation mode whose attention is far from uniform."""
        import transformers

        config = self.config(kind)
        torch.manual_seed(0)
        with torch.random.fork_rng():
            model = getattr(transformers, auto).from_config(config, attn_implementation="eager")
        if getattr(model, "pooler", None) is not None:
            model.pooler = None
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.ndim == 1:
                    parameter.add_(torch.randn_like(parameter) * 0.1)
                elif "embeddings" not in name:
                    parameter.mul_(8.0)
        return model.eval()

    def sequences(self, *lengths: int, seed: int = 0) -> list[np.ndarray]:
        """Random ids, none of them special."""
        rng = np.random.default_rng(seed)
        return [rng.integers(5, self.vocab, length) for length in lengths]

    def alone(self, model: Any, sequences: list[np.ndarray]) -> Tensor:
        """What the model gives for each sequence by itself, laid end to end."""
        return torch.cat([model(input_ids=torch.as_tensor(ids)[None])[0].squeeze(0) for ids in sequences])


@pytest.fixture(scope="session")
def tiny() -> Tiny:
    return Tiny()
