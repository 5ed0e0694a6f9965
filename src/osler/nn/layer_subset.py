"""A smaller masked language model made of some layers of a larger one, as DistilBERT's students start."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from torch import nn

from osler.core.errors import RecipeError
from osler.nn.initial import seeded
from osler.nn.mlm import MaskedLM
from osler.nn.quiet import quiet
from osler.nn.vocabulary import set_dropout


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
