"""The model of a run: new, loaded, given another vocabulary, or a student of a teacher."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from osler.artifacts.tokenizer import Tokenizer
from osler.core.errors import ArtifactError, InputError, RecipeError
from osler.core.files import fingerprint
from osler.core.logs import get_logger
from osler.nn.distillation import frozen
from osler.nn.encoder import Layout
from osler.nn.folders import load_config, load_model, model_digest, quiet, resolve
from osler.nn.masking import MaskingVocabulary
from osler.nn.mlm import MaskedLM, check_layers, evenly_spaced, of_layers
from osler.nn.presets import find_preset
from osler.nn.vocabulary import set_dropout, with_vocabulary
from osler.stages.pretrain.config import Distillation, PretrainRecipe, Shape
from osler.text.subwords import origins


def load_vocabulary(folder: Path) -> MaskingVocabulary:
    """The vocabulary of a tokenizer folder, which must have what masking needs."""
    tokens = Tokenizer.open(folder)
    try:
        return MaskingVocabulary.of(tokens)
    except ArtifactError as error:
        raise ArtifactError(error.problem, where=folder / "tokenizer.json", fix=error.fix) from None


def tokens_apart(known: Mapping[str, int], wanted: Mapping[str, int]) -> int:
    """How many tokens of the wanted vocabulary the known one lacks or numbers otherwise."""
    return sum(known.get(token) != number for token, number in wanted.items())


def check_whole(folder: Path) -> None:
    """Refuse weights that a copy or a download has cut short; reads no more than where each tensor lies."""
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, "pt"):
                pass
        except (OSError, SafetensorError) as error:
            raise ArtifactError(
                "this file of weights is damaged or not whole", where=path, fix="Copy or download the model again"
            ) from error


def check_room(who: str, max_length: int, folder: Path, config: Any) -> None:
    """Refuse sequences longer than the model reads."""
    from transformers import AutoModelForMaskedLM

    auto: Any = AutoModelForMaskedLM
    with torch.device("meta"), quiet():
        room = Layout.of(auto.from_config(config).base_model).max_length
    if max_length > room:
        raise RecipeError(
            f"the {who} reads {room} tokens, max_length is {max_length}",
            where=folder,
            fix=f"Set max_length to {room} or less",
        )


def checked_digest(recipe: PretrainRecipe, settings: Distillation) -> str:
    """The digest of the teacher, once it is sure that this recipe's student can learn from it; before any work is done."""
    folder = resolve(settings.teacher)
    config = load_config(folder)
    check_whole(folder)
    _check_vocabulary(recipe, folder, config)
    check_room("teacher", recipe.max_length, folder, config)
    if settings.teacher_layers is not None:
        chosen_layers(recipe, settings, config)
    return model_digest(folder)


def describe(settings: Distillation) -> str:
    """Teacher and losses in one line, for a plan."""
    kept = f" of its {settings.top_k:,} likeliest tokens" if settings.top_k else ""
    align = f" + {settings.cosine:g} x distance of last hidden states" if settings.cosine else ""
    return (
        f"teacher {settings.teacher}: {settings.mlm:g} x masked tokens + {settings.kl:g} x divergence{kept} "
        f"at temperature {settings.temperature:g}{align}"
    )


def load_teacher(settings: Distillation) -> MaskedLM:
    """The teacher as it is used beside the student: frozen, in evaluation mode."""
    return frozen(MaskedLM.load(settings.teacher))


def student_of_layers(recipe: PretrainRecipe, settings: Distillation) -> MaskedLM:
    """A student that starts from layers of the teacher: its shape is the teacher's but for the number of layers."""
    teacher = MaskedLM.load(settings.teacher)
    return of_layers(teacher, chosen_layers(recipe, settings, teacher.config), dropout=recipe.shape.dropout)


def chosen_layers(recipe: PretrainRecipe, settings: Distillation, config: Any) -> tuple[int, ...]:
    """The layers of a teacher of this configuration that the student starts from; half of them if nothing says how many."""
    wanted = _named_shape(recipe)
    has = {
        "width": config.hidden_size,
        "heads": config.num_attention_heads,
        "inner": getattr(config, "intermediate_size", None) or getattr(config, "hidden_dim", None),
    }
    for name, value in has.items():
        asked = getattr(wanted, name)
        if asked is not None and asked != value:
            raise RecipeError(
                f"the student's {name} is {asked}, the teacher's {value}: layers are taken over only where they agree",
                where=settings.teacher,
                fix="Leave preset and shape out but for shape.layers, or start the student from start_from or at random",
            )
    depth = int(config.num_hidden_layers)
    if not isinstance(settings.teacher_layers, tuple):
        return evenly_spaced(min(wanted.layers or max(1, depth // 2), depth), depth)
    check_layers(settings.teacher_layers, depth)
    if wanted.layers is not None and wanted.layers != len(settings.teacher_layers):
        raise RecipeError(
            f"the student has {wanted.layers} layers, but teacher_layers names {len(settings.teacher_layers)}",
            fix="Let the numbers agree, or leave preset and shape.layers out",
        )
    return settings.teacher_layers


def _named_shape(recipe: PretrainRecipe) -> Shape:
    """What the recipe says of the student's shape itself; a preset counts only where it is written down."""
    if "preset" not in recipe.model_fields_set:
        return recipe.shape
    preset = find_preset(recipe.preset)
    named = {"layers": preset.layers, "width": preset.width, "heads": preset.heads, "inner": preset.inner}
    return Shape(**{**named, **recipe.shape.model_dump(exclude_none=True)})


def _check_vocabulary(recipe: PretrainRecipe, folder: Path, config: Any) -> None:
    known = Tokenizer.open(folder).tokenizer.get_vocab(with_added_tokens=True)
    wanted = Tokenizer.open(recipe.tokenizer).tokenizer.get_vocab(with_added_tokens=True)
    if known != wanted:
        apart = tokens_apart(known, wanted)
        raise ArtifactError(
            f"the teacher's vocabulary is not the student's: {len(known):,} tokens against {len(wanted):,}, "
            f"{apart:,} of the student's are missing there or have another number",
            where=folder,
            fix="Give student and teacher one tokenizer (the teacher's own folder holds it), or use another teacher",
        )
    if config.vocab_size < len(wanted):
        raise ArtifactError(
            f"the teacher scores {config.vocab_size:,} tokens, the tokenizer has {len(wanted):,}",
            where=folder,
            fix="Give a teacher that was trained with this tokenizer",
        )


log = get_logger("osler.pretrain")


def make_model(recipe: PretrainRecipe, vocabulary: MaskingVocabulary) -> MaskedLM:
    """The model at the start of the run, the same for the same recipe."""
    if recipe.distill and recipe.distill.teacher_layers is not None:
        return student_of_layers(recipe, recipe.distill)
    if recipe.start_from:
        return _loaded(recipe, recipe.start_from, vocabulary)
    shape = recipe.shape
    return MaskedLM.from_preset(
        find_preset(recipe.preset).changed(
            layers=shape.layers, width=shape.width, heads=shape.heads, inner=shape.inner
        ),
        vocab_size=vocabulary.size,
        max_length=recipe.max_length,
        pad_token_id=vocabulary.pad_id,
        bos_token_id=_first(vocabulary.prefix),
        eos_token_id=_first(vocabulary.suffix),
        dropout=shape.dropout,
        seed=recipe.train.seed,
    )


def checked_start(recipe: PretrainRecipe, start_from: Path, vocabulary: MaskingVocabulary) -> str:
    """The digest of the checkpoint, once it is sure that this recipe can continue from it; before any work is done."""
    if not start_from.expanduser().exists():
        raise InputError(
            "no such folder",
            where=start_from,
            fix="Name the checkpoint's folder with --from: config.json, model.safetensors and tokenizer.json",
        )
    folder = resolve(start_from)
    config = load_config(folder)
    check_whole(folder)
    _check_tokenizer(recipe, folder, config, vocabulary)
    _check_shape(recipe, folder, config)
    wanted = (folder / "config.json", folder / "tokenizer.json")
    return fingerprint([*sorted(folder.glob("*.safetensors")), *(path for path in wanted if path.is_file())])


def _loaded(recipe: PretrainRecipe, start_from: Path, vocabulary: MaskingVocabulary) -> MaskedLM:
    from transformers import AutoModelForMaskedLM

    model = load_model(AutoModelForMaskedLM, start_from)
    if recipe.swap_vocabulary:
        made = origins(Tokenizer.open(resolve(start_from)).tokenizer, Tokenizer.open(recipe.tokenizer).tokenizer)
        log.event(
            "pretrain.vocabulary_swapped",
            special=made.special,
            kept=made.kept,
            composed=made.composed,
            unknown=made.unknown,
        )
        model = with_vocabulary(
            model,
            made,
            pad_id=vocabulary.pad_id,
            begin_id=_first(vocabulary.prefix),
            end_id=_first(vocabulary.suffix),
        )
    if recipe.shape.dropout is not None:
        set_dropout(model, recipe.shape.dropout)
    return MaskedLM(model)


def _check_tokenizer(recipe: PretrainRecipe, folder: Path, config: Any, vocabulary: MaskingVocabulary) -> None:
    has_tokenizer = (folder / "tokenizer.json").is_file()
    if recipe.swap_vocabulary:
        if not has_tokenizer:
            raise ArtifactError(
                "swap_vocabulary reads the checkpoint's own tokenizer, and there is no tokenizer.json here",
                where=folder,
                fix="Put the checkpoint's tokenizer.json into its folder",
            )
        return
    if has_tokenizer:
        known = Tokenizer.open(folder).tokenizer.get_vocab(with_added_tokens=True)
        wanted = Tokenizer.open(recipe.tokenizer).tokenizer.get_vocab(with_added_tokens=True)
        apart = tokens_apart(known, wanted)
        if apart:
            raise ArtifactError(
                f"the checkpoint's vocabulary is not the tokenizer's: {apart:,} of {len(wanted):,} tokens are missing "
                "there or have another number",
                where=folder,
                fix="Continue with the checkpoint's own tokenizer, or set swap_vocabulary = true to give it this one",
            )
    if config.vocab_size < vocabulary.size:
        raise ArtifactError(
            f"the checkpoint knows {config.vocab_size:,} tokens, the tokenizer has {vocabulary.size:,}",
            where=folder,
            fix="Continue with the checkpoint's own tokenizer",
        )


def _check_shape(recipe: PretrainRecipe, folder: Path, config: Any) -> None:
    check_room("checkpoint", recipe.max_length, folder, config)
    has = {
        "layers": config.num_hidden_layers,
        "width": config.hidden_size,
        "heads": config.num_attention_heads,
        "inner": getattr(config, "intermediate_size", None) or getattr(config, "hidden_dim", None),
    }
    for name, value in has.items():
        asked = getattr(recipe.shape, name)
        if asked is not None and asked != value:
            raise RecipeError(
                f"shape.{name} is {asked}, the checkpoint's is {value}: a checkpoint keeps its shape",
                where=folder,
                fix=f"Leave shape.{name} out, or leave start_from out for a new encoder",
            )


def _first(ids: tuple[int, ...]) -> int | None:
    return ids[0] if ids else None
