"""The shape of a run's model without its weights: enough to count parameters, work and memory of a model of any size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from osler.nn.flops import flops_per_token
from osler.nn.folders import load_config
from osler.nn.presets import PRESETS, find_preset, preset_config
from osler.nn.quiet import quiet
from osler.stages.pretrain.config import PretrainRecipe
from osler.stages.pretrain.teacher import chosen_layers
from osler.tasks.mlm.vocabulary import Vocabulary
from osler.train.optim import parameter_groups


@dataclass(frozen=True)
class Skeleton:
    """A model's configuration and the numbers that follow from it."""

    config: Any
    parameters: int
    embeddings: int
    """Of them in tables that are looked up: words, positions, segments."""
    optimiser_values: int
    """Numbers the optimiser keeps: two a parameter, one for those that Muon trains."""
    flops_per_token: float
    """Of training, a teacher's forward pass included, at full context."""
    teacher_parameters: int = 0


def with_stand_ins(recipe: PretrainRecipe) -> tuple[PretrainRecipe, list[str]]:
    """The recipe with something else in the place of models that are not there, and what that is: plans come before data."""
    notes = []
    if recipe.distill and not recipe.distill.teacher.exists():
        notes.append(f"the teacher {recipe.distill.teacher} is not there: its forward pass is not counted")
        recipe = recipe.changed(distill=None)
    if recipe.start_from and not recipe.start_from.exists():
        name = recipe.start_from.name.lower()
        preset = next((preset for preset in PRESETS if preset in name), recipe.preset)
        notes.append(f"the checkpoint {recipe.start_from} is not there: a new {preset} encoder stands in for it")
        recipe = recipe.changed(start_from=None, swap_vocabulary=False, preset=preset)
    return recipe, notes


def skeleton_of(recipe: PretrainRecipe, vocabulary: Vocabulary) -> Skeleton:
    """Build it on torch's meta device, which holds shapes and no values."""
    config = _config(recipe, vocabulary)
    model = _empty(config)
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    tables = {
        id(module.weight): module.weight.numel() for module in model.modules() if isinstance(module, nn.Embedding)
    }
    kept = {"muon": 1}
    values = sum(
        kept.get(group.optimizer, 2) * sizes[name]
        for group in parameter_groups(model, recipe.train)
        for name in group.names
    )
    rate, length = recipe.masking.rate, recipe.max_length
    flops = flops_per_token(config, masked_fraction=rate, length=length)
    known = 0
    if recipe.distill:
        teacher = load_config(recipe.distill.teacher)
        flops += flops_per_token(teacher, masked_fraction=rate, length=length, backward=False)
        known = sum(parameter.numel() for parameter in _empty(teacher).parameters())
    return Skeleton(config, sum(sizes.values()), sum(tables.values()), values, flops, known)


def _empty(config: Any) -> Any:
    from transformers import AutoModelForMaskedLM

    auto: Any = AutoModelForMaskedLM
    with torch.device("meta"), quiet():
        return auto.from_config(config)


def _config(recipe: PretrainRecipe, vocabulary: Vocabulary) -> Any:
    if recipe.distill and recipe.distill.teacher_layers is not None:
        config = load_config(recipe.distill.teacher)
        layers = chosen_layers(recipe, recipe.distill, config)
        if getattr(config, "layer_types", None):  # local or global attention goes with the layer
            config.layer_types = [config.layer_types[layer] for layer in layers]
        config.num_hidden_layers = len(layers)
        return config
    if recipe.start_from:
        config = load_config(recipe.start_from)
        if recipe.swap_vocabulary:
            config.vocab_size = vocabulary.size
        return config
    shape = recipe.shape
    changed = find_preset(recipe.preset).changed(
        layers=shape.layers, width=shape.width, heads=shape.heads, inner=shape.inner
    )
    return preset_config(
        changed,
        vocab_size=vocabulary.size,
        pad_token_id=vocabulary.pad_id,
        max_length=recipe.max_length,
        dropout=shape.dropout,
    )
