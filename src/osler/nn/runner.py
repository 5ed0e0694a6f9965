"""Run one base model on packed batches, packed where it can and padded where it must."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from osler.nn import attention
from osler.nn.dropout import hash_dropout
from osler.nn.folders import save_model
from osler.nn.layout import Layout
from osler.nn.norms import half_norms
from osler.nn.packing import Packed, from_padded, to_padded
from osler.nn.probe import honours_registration
from osler.nn.quiet import quiet

Mode = Literal["packed", "padded"]


@dataclass(frozen=True)
class Runner:
    """How the batches of one base model are run. It holds no weights, so that models may share or replace theirs."""

    mode: Mode
    layout: Layout

    @classmethod
    def prepare(cls, model: Any, mode: Mode | None = None) -> Runner:
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
        self._runner = Runner.prepare(model.base_model, mode)
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
