"""Run any Hugging Face encoder on packed batches: packed where the architecture allows it, padded where it does not."""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from osler.nn import attention
from osler.nn.folders import load_config, load_model, quiet, save_model, seeded, without_pooler
from osler.nn.layers import half_norms, hash_dropout
from osler.nn.packing import Packed, Padded, from_padded, pack, to_padded


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


_TOLERANCE = 1e-4
_known: dict[type, bool] = {}


def honours_registration(model: Any) -> bool:
    """Whether this Hugging Face base model gives right results packed; tried once for each class."""
    kind = type(model)
    if kind not in _known:
        _known[kind] = _probe(model)
    return _known[kind]


def _probe(model: Any) -> bool:
    # In half precision a leak could hide in the rounding.
    if next(model.parameters()).dtype != torch.float32:
        model = copy.deepcopy(model).float()
    layout = Layout.of(model)
    # Longer than the local window, so that a window passed on wrongly shows as well.
    window = getattr(model.config, "sliding_window", None) or 0
    lengths = (min(window + 9, layout.max_length), min(7, layout.max_length))
    tokens = torch.arange(sum(lengths)) * 7919 % min(model.config.vocab_size, 997)
    tokens[tokens == layout.pad_id] += 1
    sequences = [part.numpy() for part in tokens.split(lengths)]
    device = next(model.parameters()).device
    together = pack(sequences, pad_id=layout.pad_id).to(device)
    alone = [row[None].to(device) for row in tokens.split(lengths)]

    before, training = model.config._attn_implementation, model.training
    model.eval()
    attention.register()
    with torch.no_grad(), quiet():
        try:
            model.set_attn_implementation("eager")
            # Without position ids, so that the model's own count of positions is the reference too.
            expected = torch.cat([model(input_ids=row)[0].squeeze(0) for row in alone])
            model.set_attn_implementation(attention.NAME)
            if model.config._attn_implementation != attention.NAME:
                return False
            found = model(**layout.packed_inputs(together))[0].squeeze(0)
        except (TypeError, ValueError, RuntimeError, NotImplementedError):
            # Packing is an optimisation: a model that cannot take it runs padded, where a real fault would show again.
            return False
        finally:
            model.set_attn_implementation(before)
            model.train(training)
    scale = expected.abs().max().clamp(min=1.0)
    return bool((found - expected).abs().max() <= _TOLERANCE * scale)


Mode = Literal["packed", "padded"]


@dataclass(frozen=True)
class PackedRunner:
    """How the batches of one base model are run. It holds no weights, so that models may share or replace theirs."""

    mode: Mode
    layout: Layout

    @classmethod
    def prepare(cls, model: Any, mode: Mode | None = None) -> PackedRunner:
        """Choose the mode (None: packed if the model can) and set the model's attention for it."""
        able = mode != "padded" and honours_registration(model)
        if mode == "packed" and not able:
            raise ValueError(f"{type(model).__name__} cannot run packed: it ignores the registered attention")
        if able:
            attention.register()
            with quiet():
                model.set_attn_implementation(attention.NAME)
        elif model.config._attn_implementation == attention.NAME:
            model.set_attn_implementation("sdpa")
        return cls("packed" if able else "padded", Layout.of(model))

    def hidden(self, model: Any, batch: Packed) -> Tensor:
        """The last hidden states [T, H] of every token of the batch."""
        if batch.max_length > self.layout.max_length:
            raise ValueError(
                f"the batch may hold sequences of {batch.max_length} tokens, the encoder takes {self.layout.max_length}"
            )
        if self.mode == "packed":
            if model.config._attn_implementation != attention.NAME:
                # Any other attention would let the sequences of a batch see each other.
                raise RuntimeError("the attention of this model was changed from outside; make its Encoder again")
            packed: Tensor = model(**self.layout.packed_inputs(batch))[0]
            return packed.squeeze(0)
        padded = to_padded(batch, pad_id=self.layout.pad_id)
        return from_padded(model(**self.layout.padded_inputs(padded))[0], padded)


class PackedModule(nn.Module):
    """A Hugging Face model behind packed batches, and what is known of its shape."""

    def __init__(self, model: Any, mode: Mode | None = None) -> None:
        super().__init__()
        half_norms(model)
        hash_dropout(model)
        self.model = model
        self._runner = PackedRunner.prepare(model.base_model, mode)
        self.train(model.training)

    @property
    def config(self) -> Any:
        """The Hugging Face configuration."""
        return self.model.config

    @property
    def hidden_size(self) -> int:
        """The width of a hidden state."""
        return int(self.config.hidden_size)

    @property
    def vocab_size(self) -> int:
        """The number of rows of the embedding table."""
        return int(self.config.vocab_size)

    @property
    def max_length(self) -> int:
        """The most tokens a sequence may have, special tokens included."""
        return self._runner.layout.max_length

    @property
    def mode(self) -> Mode:
        """Whether batches run packed, or padded because the architecture (or the recipe) wants it."""
        return self._runner.mode

    def hidden(self, batch: Packed) -> Tensor:
        """The last hidden states [T, H]."""
        return self._runner.hidden(self.model.base_model, batch)

    def save(self, folder: Path) -> None:
        """Write a folder that stock `transformers` loads."""
        save_model(self.model, folder)


class PackedEncoder(PackedModule):
    """A Hugging Face base model without pooler."""

    def forward(self, batch: Packed) -> Tensor:
        """The last hidden states [T, H]."""
        return self.hidden(batch)


def load_encoder(source: str | Path, *, mode: Mode | None = None) -> PackedEncoder:
    """Load an encoder, in evaluation mode, from a folder or by its hub name; a masked language model gives its own."""
    from transformers import AutoModel

    return PackedEncoder(load_model(AutoModel, source), mode)


def fresh_encoder(source: str | Path, *, seed: int, mode: Mode | None = None) -> PackedEncoder:
    """An encoder of the shape of another, with random weights: the baseline for what its pretraining is worth."""
    from transformers import AutoModel

    auto: Any = AutoModel
    config = load_config(source)
    with seeded(seed, "encoder"), quiet():
        model = auto.from_config(config, dtype=torch.float32, **without_pooler(auto, config))
    return PackedEncoder(model.eval(), mode)
