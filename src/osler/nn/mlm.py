"""Masked language models that score only the masked positions."""

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
from osler.nn.masking import IGNORED
from osler.nn.packing import Packed
from osler.nn.vocabulary import pad_decoder, set_dropout

# The modules of the language-model head in order, by their names in transformers. The first set that a model has applies.
_HEADS: tuple[tuple[str, ...], ...] = (
    ("lm_head",),  # RoBERTa, XLM-R, CamemBERT, MPNet
    ("cls",),  # BERT, DeBERTa-v2
    ("predictions",),  # ALBERT
    ("generator_predictions", "generator_lm_head"),  # ELECTRA
    ("vocab_transform", "activation", "vocab_layer_norm", "vocab_projector"),  # DistilBERT
    ("head", "decoder"),  # ModernBERT
)


HEAD_PARTS = frozenset(name for names in _HEADS for name in names)
"""Names of the modules that a language-model head has in any architecture; no encoder has one of them."""


class MaskedLM(PackedModule):
    """A Hugging Face masked language model that runs on packed batches."""

    def __init__(self, model: Any, mode: Mode | None = None) -> None:
        names = next((names for names in _HEADS if all(hasattr(model, name) for name in names)), None)
        if names is None:
            raise InputError(
                f"the language-model head of {type(model).__name__} is not supported",
                fix="Use BERT, RoBERTa, XLM-R, CamemBERT, ELECTRA, ModernBERT, DistilBERT, ALBERT, MPNet or DeBERTa-v2",
            )
        super().__init__(model, mode)
        pad_decoder(model)
        self._head = names

    @classmethod
    def load(cls, source: str | Path) -> MaskedLM:
        """Load a folder or a hub model. It must include the language-model head."""
        return cls(load_model(cls.auto(), source))

    @classmethod
    def from_config(cls, config: Any, *, seed: int) -> MaskedLM:
        """Make a model with random weights, in evaluation mode like a loaded one."""
        with seeded(seed, "masked-lm"), quiet():
            model = cls.auto().from_config(config)
        return cls(model.eval())

    @classmethod
    def auto(cls) -> Any:
        """The class of transformers that makes and loads the model."""
        from transformers import AutoModelForMaskedLM

        return AutoModelForMaskedLM

    def padded_head(self, hidden: Tensor) -> Tensor:
        """Return scores [M, V rounded up] for hidden states [M, H]. Padding scores so low that its probability is 0."""
        for name in self._head:
            hidden = getattr(self.model, name)(hidden)
        return hidden

    def forward(self, batch: Packed, positions: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss summed over the targets that are not -100, and their number."""
        # The padding stays: it adds nothing to the loss, and removing it would cost a pass over the scores.
        return masked_loss(self.padded_head(self.hidden(batch).index_select(0, positions)), targets)


class BertLM(MaskedLM):
    """BERT with both heads of its pretraining: masked tokens, and whether a second text follows the first."""

    @classmethod
    def auto(cls) -> Any:
        from transformers import AutoModelForPreTraining

        return AutoModelForPreTraining

    def padded_head(self, hidden: Tensor) -> Tensor:
        scores: Tensor = self.model.cls.predictions(hidden)
        return scores

    def second_text_scores(self, hidden: Tensor) -> Tensor:
        """Return scores [N, 2] (follows, random) for the hidden states [N, H] of the first tokens of pairs."""
        scores: Tensor = self.model.cls.seq_relationship(self.model.bert.pooler(hidden[:, None]))
        return scores


def masked_loss(scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cross-entropy summed over the targets that are not -100, and their number."""
    loss = cross_entropy(scores.float(), targets, ignore_index=IGNORED, reduction="sum")
    return loss, (targets != IGNORED).sum().float()


def evenly_spaced(count: int, layers: int) -> tuple[int, ...]:
    """Choose `count` layers including the first and the last. 6 of 12 gives DistilBERT's 0, 2, 4, 7, 9, 11."""
    if count == 1:
        return (0,)
    return tuple(round(place * (layers - 1) / (count - 1)) for place in range(count))


def check_layers(layers: Sequence[int], depth: int) -> None:
    """Check that layer numbers exist and rise."""
    if not layers or list(layers) != sorted(set(layers)) or layers[0] < 0 or layers[-1] >= depth:
        raise RecipeError(
            f"teacher_layers must be rising numbers between 0 and {depth - 1}: the teacher has {depth} layers",
            fix='Name layers of the teacher, counted from 0, or write teacher_layers = "even"',
        )


def with_layers(config: Any, layers: Sequence[int]) -> Any:
    """Return a copy of a Hugging Face configuration that keeps only these layers."""
    changed = copy.deepcopy(config)
    changed.num_hidden_layers = len(layers)
    if getattr(config, "layer_types", None):  # local or global attention belongs to the layer
        changed.layer_types = [config.layer_types[layer] for layer in layers]
    return changed


def of_layers(teacher: MaskedLM, layers: Sequence[int], *, dropout: float | None = None) -> MaskedLM:
    """Make a model from copies of the teacher's embeddings, some of its layers, its last norm and its head."""
    from transformers import AutoModelForMaskedLM

    auto: Any = AutoModelForMaskedLM
    depth = int(teacher.config.num_hidden_layers)
    stack = next(
        (
            name
            for name, module in teacher.model.named_modules()
            if isinstance(module, nn.ModuleList) and len(module) == depth and not name.startswith("lm_head")
        ),
        None,
    )
    if stack is None:
        raise RecipeError(
            f"taking single layers of {type(teacher.model).__name__} is not supported",
            fix="Start the student from a checkpoint (start_from) or from a preset instead",
        )
    check_layers(layers, depth)
    with seeded(0, "layers"), quiet():  # every weight drawn here is replaced below
        model = auto.from_config(with_layers(teacher.config, layers))
    weights = {}
    for name, value in teacher.model.state_dict().items():
        place, _, rest = name.removeprefix(f"{stack}.").partition(".")
        if not name.startswith(f"{stack}."):
            weights[name] = value
        elif int(place) in layers:
            weights[f"{stack}.{layers.index(int(place))}.{rest}"] = value
    unmatched = model.load_state_dict(weights, strict=False)
    if unmatched.missing_keys or unmatched.unexpected_keys:
        # ModernBERT's first layer has no norm of its own, so no other layer can take its place.
        raise RecipeError(
            f"layer {layers[0]} of this {teacher.config.model_type} cannot come first: its first layer is built differently",
            fix="Begin teacher_layers with 0",
        )
    if dropout is not None:
        set_dropout(model, dropout)
    return MaskedLM(model.eval(), teacher.mode)
