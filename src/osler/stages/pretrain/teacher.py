"""The teacher of a distillation: checked before any work, loaded frozen, and, if the recipe says so, lending its layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from osler.core.errors import ArtifactError, RecipeError
from osler.nn.distillation import frozen
from osler.nn.folders import load_config, model_digest, resolve
from osler.nn.layer_subset import check_layers, evenly_spaced, of_layers
from osler.nn.mlm import MaskedLM
from osler.nn.presets import find_preset
from osler.stages.pretrain.config import Distillation, PretrainRecipe, Shape
from osler.stages.pretrain.fits import check_room, check_whole, tokens_apart
from osler.tasks.tokens import Tokens


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
    known = Tokens.load(folder).tokenizer.get_vocab(with_added_tokens=True)
    wanted = Tokens.load(recipe.tokenizer).tokenizer.get_vocab(with_added_tokens=True)
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
