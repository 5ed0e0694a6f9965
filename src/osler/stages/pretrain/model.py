"""The model of a run: new, loaded, or loaded and given another vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from osler.core.errors import ArtifactError, InputError, RecipeError
from osler.core.files import fingerprint
from osler.core.logs import get_logger
from osler.nn.folders import load_config, load_model, resolve
from osler.nn.mlm import MaskedLM
from osler.nn.pieces import origins
from osler.nn.presets import find_preset
from osler.nn.vocabulary import set_dropout, with_vocabulary
from osler.stages.pretrain.config import PretrainRecipe
from osler.stages.pretrain.fits import check_room, check_whole, tokens_apart
from osler.stages.pretrain.teacher import student_of_layers
from osler.tasks.mlm.vocabulary import Vocabulary
from osler.tasks.tokens import Tokens

log = get_logger("osler.pretrain")


def make_model(recipe: PretrainRecipe, vocabulary: Vocabulary) -> MaskedLM:
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


def checked_start(recipe: PretrainRecipe, start_from: Path, vocabulary: Vocabulary) -> str:
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


def _loaded(recipe: PretrainRecipe, start_from: Path, vocabulary: Vocabulary) -> MaskedLM:
    from transformers import AutoModelForMaskedLM

    model = load_model(AutoModelForMaskedLM, start_from)
    if recipe.swap_vocabulary:
        made = origins(Tokens.load(resolve(start_from)).tokenizer, Tokens.load(recipe.tokenizer).tokenizer)
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


def _check_tokenizer(recipe: PretrainRecipe, folder: Path, config: Any, vocabulary: Vocabulary) -> None:
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
        known = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab(with_added_tokens=True)
        wanted = Tokens.load(recipe.tokenizer).tokenizer.get_vocab(with_added_tokens=True)
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
