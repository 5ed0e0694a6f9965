"""The inputs of one architecture: where its positions start, whether it knows token types, how much it takes."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from torch import nn

from osler.nn.packing import Packed, Padded


@dataclass(frozen=True)
class Layout:
    """The input conventions of one encoder."""

    position_offset: int
    token_types: bool
    max_length: int
    pad_id: int

    @classmethod
    def of(cls, model: Any) -> Layout:
        """Read the conventions from a Hugging Face base model."""
        # RoBERTa and its kin keep the rows up to their padding index free: their first position is padding_idx + 1.
        table = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
        padding = table.padding_idx if isinstance(table, nn.Embedding) else None
        offset = 0 if padding is None else padding + 1
        known = inspect.signature(model.forward).parameters
        return cls(
            position_offset=offset,
            token_types="token_type_ids" in known and (getattr(model.config, "type_vocab_size", 0) or 0) > 1,
            max_length=int(model.config.max_position_embeddings) - offset,
            pad_id=getattr(model.config, "pad_token_id", None) or 0,
        )

    def packed_inputs(self, batch: Packed) -> dict[str, Any]:
        """The keyword arguments that run a model with packed attention."""
        inputs = {
            "input_ids": batch.input_ids[None],
            "position_ids": batch.position_ids[None] + self.position_offset,
            "cu_seq_lens_q": batch.cu_seqlens,
            "cu_seq_lens_k": batch.cu_seqlens,
            "max_length_q": batch.max_length,
            "max_length_k": batch.max_length,
        }
        if self.token_types and batch.token_type_ids is not None:
            inputs["token_type_ids"] = batch.token_type_ids[None]
        return inputs

    def padded_inputs(self, padded: Padded) -> dict[str, Any]:
        """The keyword arguments that run a model as it stands on padded rows."""
        inputs = {
            "input_ids": padded.input_ids,
            "attention_mask": padded.attention_mask,
            "position_ids": padded.position_ids + self.position_offset,
        }
        if self.token_types and padded.token_type_ids is not None:
            inputs["token_type_ids"] = padded.token_type_ids
        return inputs
