"""The model that a run trains: new, from a checkpoint (with its own or a new vocabulary), or from layers of a teacher."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from osler.artifacts.corpus import Corpus
from osler.artifacts.encoder import Encoder
from osler.artifacts.tokenizer import TOKENIZER, Tokenizer
from osler.core.errors import ArtifactError, RecipeError
from osler.core.logs import get_logger
from osler.nn.cost import flops_per_token, inner_width
from osler.nn.encoder import Layout
from osler.nn.folders import load_model, quiet, seeded
from osler.nn.masking import MaskingVocabulary
from osler.nn.mlm import HEAD_PARTS, BertLM, MaskedLM, check_layers, evenly_spaced, of_layers, with_layers
from osler.nn.presets import find_preset, preset_config
from osler.nn.vocabulary import set_dropout, with_vocabulary
from osler.stages.pretrain.config import Distillation, PretrainRecipe
from osler.stages.pretrain.tokenise import SPLIT_HASH, split_hash
from osler.text.subwords import origins
from osler.train.optim import parameter_groups

log = get_logger("osler.pretrain")


def load_vocabulary(folder: Path) -> MaskingVocabulary:
    """Load the vocabulary of a tokenizer folder. It must have a mask token and a padding token."""
    tokenizer = Tokenizer.open(folder)
    try:
        return MaskingVocabulary.of(tokenizer)
    except ArtifactError as error:
        raise ArtifactError(error.problem, where=folder / TOKENIZER, fix=error.fix) from None


def make_model(recipe: PretrainRecipe, vocabulary: MaskingVocabulary) -> MaskedLM:
    """Make the model at the start of the run. The same recipe gives the same weights."""
    if recipe.distill and recipe.distill.teacher_layers is not None:
        teacher = MaskedLM.load(recipe.distill.teacher)
        layers = teacher_layers(recipe, recipe.distill, teacher.config)
        return of_layers(teacher, layers, dropout=recipe.shape.dropout)
    kind = BertLM if recipe.uses_pairs else MaskedLM
    if not recipe.start_from:
        return kind.from_config(model_config(recipe, vocabulary), seed=recipe.train.seed)
    with seeded(recipe.train.seed, "head"):
        model = load_model(kind.auto(), recipe.start_from, new_parts=HEAD_PARTS if recipe.new_head else ())
    if recipe.swap_vocabulary:
        old = Tokenizer.open(Encoder.open(recipe.start_from).path).tokenizer
        rows = origins(old, Tokenizer.open(recipe.tokenizer).tokenizer)
        counts = {name: getattr(rows, name) for name in ("special", "kept", "composed", "unknown")}
        log.event("pretrain.vocabulary_swapped", **counts)
        begin_id, end_id = _frame_ids(vocabulary)
        model = with_vocabulary(model, rows, pad_id=vocabulary.pad_id, begin_id=begin_id, end_id=end_id)
    if recipe.shape.dropout is not None:
        set_dropout(model, recipe.shape.dropout)
    return kind(model)


def model_config(recipe: PretrainRecipe, vocabulary: MaskingVocabulary) -> Any:
    """Return the Hugging Face configuration of the model, without loading any weights."""
    if recipe.distill and recipe.distill.teacher_layers is not None:
        config = Encoder.open(recipe.distill.teacher).config
        return with_layers(config, teacher_layers(recipe, recipe.distill, config))
    if recipe.start_from:
        config = Encoder.open(recipe.start_from).config
        if recipe.swap_vocabulary:
            config.vocab_size = vocabulary.size
        return config
    begin_id, end_id = _frame_ids(vocabulary)
    return preset_config(
        recipe.preset_shape,
        vocab_size=vocabulary.size,
        max_length=recipe.max_length,
        pad_token_id=vocabulary.pad_id,
        bos_token_id=begin_id,
        eos_token_id=end_id,
        dropout=recipe.shape.dropout,
    )


def teacher_layers(recipe: PretrainRecipe, settings: Distillation, config: Any) -> tuple[int, ...]:
    """Choose the teacher layers that initialise the student: half of them unless the recipe sets a number."""
    # A preset counts only if the recipe names it: the default is for new encoders.
    preset = find_preset(recipe.preset) if "preset" in recipe.model_fields_set else None
    wanted = {name: getattr(recipe.shape, name) or getattr(preset, name, None) for name in _shape_of(config)}
    for name, value in _shape_of(config).items():
        if name != "layers" and wanted[name] not in (None, value):
            raise RecipeError(
                f"the student's {name} is {wanted[name]}, the teacher's {value}: to reuse layers, they must be equal",
                where=settings.teacher,
                fix="Set only shape.layers and leave out preset, or start the student from start_from or at random",
            )
    depth, count = int(config.num_hidden_layers), wanted["layers"]
    if not isinstance(settings.teacher_layers, tuple):
        return evenly_spaced(min(count or max(1, depth // 2), depth), depth)
    check_layers(settings.teacher_layers, depth)
    if count not in (None, len(settings.teacher_layers)):
        raise RecipeError(
            f"the student has {count} layers, but teacher_layers names {len(settings.teacher_layers)}",
            fix="Make the numbers equal, or leave out preset and shape.layers",
        )
    return settings.teacher_layers


@dataclass(frozen=True)
class ModelSize:
    """The configuration of a model and the numbers that follow from it."""

    config: Any
    parameters: int
    embeddings: int
    """Parameters in embedding tables: words, positions, segments."""
    optimiser_values: int
    """Values in the optimiser state: one per parameter trained by Muon, two per other parameter."""
    flops_per_token: float
    """FLOPs of training at full context, including a teacher's forward pass."""
    teacher_parameters: int = 0


def model_size(recipe: PretrainRecipe, vocabulary: MaskingVocabulary) -> ModelSize:
    """Measure the model on torch's meta device, without allocating weights."""
    auto = (BertLM if recipe.uses_pairs else MaskedLM).auto()
    config = model_config(recipe, vocabulary)
    rate, length = recipe.masking.rate, recipe.max_length
    flops, teacher_parameters = flops_per_token(config, masked_fraction=rate, length=length), 0
    with torch.device("meta"), quiet():
        model = auto.from_config(config)
        if recipe.distill:
            teacher = Encoder.open(recipe.distill.teacher).config
            flops += flops_per_token(teacher, masked_fraction=rate, length=length, backward=False)
            teacher_parameters = sum(value.numel() for value in auto.from_config(teacher).parameters())
    sizes = {name: value.numel() for name, value in model.named_parameters()}
    tables = {id(m.weight): m.weight.numel() for m in model.modules() if isinstance(m, nn.Embedding)}
    values = sum(
        (1 if group.optimizer == "muon" else 2) * sizes[name]
        for group in parameter_groups(model, recipe.train)
        for name in group.names
    )
    return ModelSize(config, sum(sizes.values()), sum(tables.values()), values, flops, teacher_parameters)


def check_language_model(folder: Path) -> None:
    """Reject a missing folder, or a bundle: fine-tuning drops the language-model head."""
    model = Encoder.open(folder)
    if model.manifest and model.manifest.kind == "bundle":
        raise ArtifactError(
            "this is a fine-tuned bundle, which no longer has a language-model head",
            where=folder,
            fix="Give an encoder (osler pretrain) or another masked language model",
        )


def check_memory(recipe: PretrainRecipe, vocabulary: MaskingVocabulary) -> None:
    """Reject a new encoder that is too large to train in this machine's memory."""
    if recipe.start_from or (recipe.distill and recipe.distill.teacher_layers is not None):
        return
    size, there = model_size(recipe, vocabulary), machine_memory()
    # Weights, gradients and the optimiser's numbers, all in fp32; activations come on top.
    needed = 4 * (2 * size.parameters + size.optimiser_values)
    if needed > there:
        raise RecipeError(
            f"an encoder of {size.parameters:,} parameters takes {needed / 2**30:,.0f} GiB to train, "
            f"this machine has {there / 2**30:,.0f} GiB",
            fix="Choose a smaller preset or shape, or train on a larger machine",
        )


def machine_memory() -> int:
    """Return the size of main memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_start(recipe: PretrainRecipe, start_from: Path, vocabulary: MaskingVocabulary) -> str:
    """Check that the recipe can continue from a checkpoint. Returns the checkpoint's digest."""
    checkpoint = Encoder.open(start_from)
    config = checkpoint.config
    checkpoint.check_weights()
    if not recipe.new_head and HEAD_PARTS.isdisjoint(name.partition(".")[0] for name in checkpoint.tensors):
        raise ArtifactError(
            "this encoder has no head that predicts masked tokens",
            where=checkpoint.path,
            fix="Start with a new one (--set new_head=true), or give a masked language model",
        )
    if recipe.swap_vocabulary:
        if not checkpoint.tokenizer:
            raise ArtifactError(
                "swap_vocabulary needs the checkpoint's own tokenizer, but there is no tokenizer.json here",
                where=checkpoint.path,
                fix="Put the checkpoint's tokenizer.json into its folder",
            )
    else:
        wanted = _entries(recipe.tokenizer)
        differing = _differing(_entries(checkpoint.path), wanted) if checkpoint.tokenizer else 0
        if differing:
            raise ArtifactError(
                f"the checkpoint has another vocabulary than the tokenizer: {differing:,} of {len(wanted):,} tokens are "
                "missing or have another id",
                where=checkpoint.path,
                fix="Continue with the checkpoint's own tokenizer, or set swap_vocabulary = true to replace its vocabulary",
            )
        _check_table("checkpoint", checkpoint.path, config, vocabulary.size)
    _check_length("checkpoint", checkpoint.path, config, recipe.max_length)
    if recipe.uses_pairs and not checkpoint.has_weights("bert.pooler.dense.weight", "cls.seq_relationship.weight"):
        raise ArtifactError(
            "next-sentence prediction needs BERT's pooler and its head for pairs, but this checkpoint does not have both",
            where=checkpoint.path,
            fix="Continue an encoder that was pretrained with next_sentence, or leave next_sentence out",
        )
    for name, value in _shape_of(config).items():
        asked = getattr(recipe.shape, name)
        if asked not in (None, value):
            raise RecipeError(
                f"shape.{name} is {asked}, the checkpoint's is {value}: a checkpoint keeps its shape",
                where=checkpoint.path,
                fix=f"Leave out shape.{name}, or leave out start_from for a new encoder",
            )
    return checkpoint.digest


def check_teacher(recipe: PretrainRecipe, settings: Distillation) -> str:
    """Check that the student can be trained with a teacher. Returns the teacher's digest."""
    teacher = Encoder.open(settings.teacher)
    config = teacher.config
    teacher.check_weights()
    known, wanted = _entries(teacher.path), _entries(recipe.tokenizer)
    if known != wanted:
        differing = _differing(known, wanted)
        how = f"{differing:,} of the student's tokens are missing from it or have another id"
        if not differing:
            how = f"the student lacks {len(known) - len(wanted):,} of its tokens"
        raise ArtifactError(
            f"the teacher has another vocabulary ({len(known):,} tokens) than the student ({len(wanted):,}): {how}",
            where=teacher.path,
            fix="Give both the same tokenizer (the teacher's folder holds one), or use another teacher",
        )
    _check_table("teacher", teacher.path, config, len(wanted))
    _check_length("teacher", teacher.path, config, recipe.max_length)
    if settings.teacher_layers is not None:
        teacher_layers(recipe, settings, config)
    return teacher.digest


class Training(NamedTuple):
    """What an encoder was trained on: all documents of a corpus except those held out by a hash."""

    corpus: str
    """Digest of the corpus."""
    hash: str
    share: float

    @classmethod
    def of(cls, recipe: PretrainRecipe, corpus: Corpus) -> Training:
        return cls(corpus.manifest.digest, split_hash(corpus), recipe.validation_share)


def trainings(folder: Path) -> list[Training]:
    """List the trainings of an encoder and of the models it derives from; empty if none are recorded."""
    manifest = Encoder.open(folder).manifest
    if manifest is None or "corpus" not in manifest.parents:
        return []
    recorded = manifest.counts.get("trained_on")
    if recorded is None:  # made by an earlier version, which had the same hash
        return [Training(manifest.parents["corpus"], SPLIT_HASH, manifest.recipe["validation_share"])]
    return [Training(**record) for record in recorded]


def check_validation(role: str, folder: Path, own: Training) -> str | None:
    """Raise if a model was trained on this corpus with other documents held out. Returns a note if that is unknown."""
    before = trainings(folder)
    differing = [training for training in before if training[1:] != own[1:]]
    for training in differing:
        if training.corpus == own.corpus:
            effect = "the two validate on different documents"
            if training.hash == own.hash and training.share < own.share:
                effect = f"{1 - training.share / own.share:.0%} of the validation documents were trained on"
            raise RecipeError(
                f"the {role} was trained on this corpus with validation_share = {training.share:g}, this run has {own.share:g}: "
                + effect,
                where=folder,
                fix=f"Add --set validation_share={training.share:g}, or --set check_validation=false to accept that",
            )
    if before and not differing:
        return None
    why = "it was trained on another corpus with another validation_share" if before else "it has no record of its text"
    return f"whether the {role} {folder} was trained on the validation documents is not known: {why}"


def _entries(folder: Path) -> dict[str, int]:
    return Tokenizer.open(folder).tokenizer.get_vocab(with_added_tokens=True)


def _differing(known: Mapping[str, int], wanted: Mapping[str, int]) -> int:
    """Count the wanted entries that are not known or have another id."""
    return sum(known.get(token) != number for token, number in wanted.items())


def _check_table(role: str, folder: Path, config: Any, size: int) -> None:
    if config.vocab_size < size:
        raise ArtifactError(
            f"the {role} has {config.vocab_size:,} vocabulary entries, the tokenizer {size:,}",
            where=folder,
            fix=f"Use the {role}'s own tokenizer",
        )


def _check_length(role: str, folder: Path, config: Any, max_length: int) -> None:
    from transformers import AutoModelForMaskedLM

    auto: Any = AutoModelForMaskedLM
    with torch.device("meta"), quiet():
        room = Layout.of(auto.from_config(config).base_model).max_length
    if max_length > room:
        raise RecipeError(
            f"the {role} reads {room} tokens, max_length is {max_length}",
            where=folder,
            fix=f"Add --set max_length={room}, or less",
        )


def _shape_of(config: Any) -> dict[str, int]:
    """Return the dimensions of a configuration, named as in the recipe's [shape]."""
    return {
        "layers": config.num_hidden_layers,
        "width": config.hidden_size,
        "heads": config.num_attention_heads,
        "inner": inner_width(config),
    }


def _frame_ids(vocabulary: MaskingVocabulary) -> tuple[int | None, int | None]:
    """Return the ids of the first special token before a sequence and the first after it."""
    return next(iter(vocabulary.prefix), None), next(iter(vocabulary.suffix), None)
