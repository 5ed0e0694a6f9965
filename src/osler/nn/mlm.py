"""Masked language models with the head on masked positions only."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from osler.core.errors import InputError, RecipeError
from osler.nn.encoder import Mode, PackedModule
from osler.nn.folders import load_model, quiet, seeded
from osler.nn.packing import Packed
from osler.nn.presets import Preset, preset_config
from osler.nn.vocabulary import pad_decoder, set_dropout

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


def evenly_spaced(count: int, layers: int) -> tuple[int, ...]:
    """`count` of so many layers, the first and the last among them; 6 of 12 are DistilBERT's own 0, 2, 4, 7, 9, 11."""
    if count == 1:
        return (0,)
    return tuple(round(place * (layers - 1) / (count - 1)) for place in range(count))


def check_layers(layers: Sequence[int], depth: int) -> None:
    """Refuse numbers that are not those of layers, in their order."""
    if not layers or list(layers) != sorted(set(layers)) or layers[0] < 0 or layers[-1] >= depth:
        raise RecipeError(
            f"teacher_layers must rise and lie between 0 and {depth - 1}, for the teacher has {depth} layers",
            fix='Name layers of the teacher, counted from 0, or write teacher_layers = "even"',
        )


def of_layers(teacher: MaskedLM, layers: Sequence[int], *, dropout: float | None = None) -> MaskedLM:
    """A model with the teacher's embeddings, these layers of it in their order, its last norm and its head; weights copied."""
    from transformers import AutoModelForMaskedLM

    auto: Any = AutoModelForMaskedLM
    stack = _stack(teacher.model)
    check_layers(layers, int(teacher.config.num_hidden_layers))
    config = copy.deepcopy(teacher.config)
    config.num_hidden_layers = len(layers)
    if getattr(config, "layer_types", None):  # local or global attention goes with the layer
        config.layer_types = [teacher.config.layer_types[layer] for layer in layers]
    with seeded(0, "layers"), quiet():  # every weight drawn here is replaced below
        model = auto.from_config(config)
    weights = {}
    for name, value in teacher.model.state_dict().items():
        place, _, rest = name.removeprefix(f"{stack}.").partition(".")
        if not name.startswith(f"{stack}."):
            weights[name] = value
        elif int(place) in layers:
            weights[f"{stack}.{layers.index(int(place))}.{rest}"] = value
    unmatched = model.load_state_dict(weights, strict=False)
    if unmatched.missing_keys or unmatched.unexpected_keys:
        # ModernBERT's first layer has no norm of its own; no other layer can stand in its place.
        raise RecipeError(
            f"layer {layers[0]} of this {teacher.config.model_type} cannot stand first: its first layer is built differently",
            fix="Begin teacher_layers with 0",
        )
    if dropout is not None:
        set_dropout(model, dropout)
    return MaskedLM(model.eval(), teacher.mode)


def _stack(model: Any) -> str:
    """The name of the list of layers."""
    depth = int(model.config.num_hidden_layers)
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == depth and not name.startswith("lm_head"):
            return str(name)
    raise RecipeError(
        f"the layers of {type(model).__name__} cannot be told apart",
        fix="Start the student from a checkpoint (start_from) or from a preset instead",
    )
