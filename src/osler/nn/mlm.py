"""Masked language models with the head on masked positions only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor
from torch.nn.functional import cross_entropy

from osler.core.errors import InputError
from osler.nn.folders import load_model
from osler.nn.initial import seeded
from osler.nn.packing import Packed
from osler.nn.presets import Preset, preset_config
from osler.nn.quiet import quiet
from osler.nn.runner import Mode, PackedModule
from osler.nn.vocabulary import pad_decoder

# The modules a hidden state passes through, in order, by the names of transformers; the first set found applies.
_HEADS: tuple[tuple[str, ...], ...] = (
    ("lm_head",),  # RoBERTa, XLM-R, CamemBERT, MPNet
    ("cls",),  # BERT, DeBERTa-v2
    ("predictions",),  # ALBERT
    ("generator_predictions", "generator_lm_head"),  # ELECTRA
    ("vocab_transform", "activation", "vocab_layer_norm", "vocab_projector"),  # DistilBERT
    ("head", "decoder"),  # ModernBERT
)

IGNORED = -100


class MaskedLM(PackedModule):
    """A Hugging Face masked language model, run packed."""

    def __init__(self, model: Any, mode: Mode | None = None) -> None:
        names = next((names for names in _HEADS if all(hasattr(model, name) for name in names)), None)
        if names is None:
            raise InputError(
                f"osler does not know the language-model head of {type(model).__name__}",
                fix="Use BERT, RoBERTa, XLM-R, CamemBERT, ELECTRA, ModernBERT, DistilBERT, ALBERT, MPNet or DeBERTa-v2",
            )
        super().__init__(model, mode)
        pad_decoder(model)
        self._head = names

    @classmethod
    def load(cls, source: str | Path, *, mode: Mode | None = None) -> MaskedLM:
        """Load from a folder or by a hub name; the folder must hold the language-model head too."""
        from transformers import AutoModelForMaskedLM

        return cls(load_model(AutoModelForMaskedLM, source), mode)

    @classmethod
    def from_preset(
        cls,
        shape: str | Preset,
        *,
        vocab_size: int,
        pad_token_id: int,
        max_length: int = 512,
        bos_token_id: int | None = None,
        eos_token_id: int | None = None,
        dropout: float | None = None,
        seed: int,
        mode: Mode | None = None,
    ) -> MaskedLM:
        """Make a model of a preset size with random weights, in evaluation mode like a loaded one."""
        from transformers import AutoModelForMaskedLM

        auto: Any = AutoModelForMaskedLM
        config = preset_config(
            shape,
            vocab_size=vocab_size,
            pad_token_id=pad_token_id,
            max_length=max_length,
            bos_token_id=bos_token_id,
            eos_token_id=eos_token_id,
            dropout=dropout,
        )
        with seeded(seed, "masked-lm"), quiet():
            model = auto.from_config(config)
        return cls(model.eval(), mode)

    def head(self, hidden: Tensor) -> Tensor:
        """Scores over the vocabulary [M, V] for hidden states [M, H]."""
        return self.padded_head(hidden)[:, : self.vocab_size]

    def padded_head(self, hidden: Tensor) -> Tensor:
        """Scores [M, V rounded up] as they are computed: those of the padding are so low that they have no probability."""
        for name in self._head:
            hidden = getattr(self.model, name)(hidden)
        return hidden

    def logits(self, batch: Packed, positions: Tensor) -> Tensor:
        """Scores over the vocabulary at some places of the batch."""
        return self.head(self.hidden(batch).index_select(0, positions))

    def forward(self, batch: Packed, positions: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The summed loss over the targets that are not -100, and their number."""
        # The padding stays: it adds nothing to the loss, and cutting it off would be one more pass over the scores.
        return masked_loss(self.padded_head(self.hidden(batch).index_select(0, positions)), targets)


def masked_loss(scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The summed cross-entropy over the targets that are not -100, and their number."""
    loss = cross_entropy(scores.float(), targets, ignore_index=IGNORED, reduction="sum")
    return loss, (targets != IGNORED).sum().float()
