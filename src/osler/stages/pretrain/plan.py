"""What a run will do and cost, for a person: in a few lines before every run, in full for a dry run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from osler.core.config import runtime
from osler.core.errors import RecipeError
from osler.nn.folders import load_config
from osler.stages.pretrain.config import PretrainRecipe
from osler.stages.pretrain.costs import Costs
from osler.stages.pretrain.extent import CorpusSize, corpus_size
from osler.stages.pretrain.fits import load_vocabulary
from osler.stages.pretrain.probe import probe
from osler.stages.pretrain.skeleton import Skeleton, skeleton_of, with_stand_ins
from osler.stages.pretrain.teacher import describe
from osler.tasks.mlm.vocabulary import Vocabulary

VOCABULARY = 50_265
"""Entries where no tokenizer is there yet: RoBERTa's, and about what the papers learn."""
_MARGIN = 14


class PlannedRecipe(PretrainRecipe):
    """A recipe to plan with: corpus and tokenizer may not be there yet, or not even be named."""

    corpus: Path = runtime(Path("CORPUS"))
    tokenizer: Path = runtime(Path("TOKENIZER"))


def numbers_of_gpus(text: str) -> tuple[int, ...]:
    """Read `8` or `1,2,4`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise RecipeError(
            f"{text!r} is no list of numbers of GPUs", where="--gpus", fix="Write one, or several as 1,2,4"
        )
    return tuple(sorted({int(part) for part in parts}))


def plan(recipe: PretrainRecipe, out: Path) -> list[str]:
    """The run in a few lines."""
    start = (
        f"continue from {recipe.start_from}"
        if recipe.start_from
        else f"a new {recipe.preset} encoder from random weights"
    )
    if recipe.distill and recipe.distill.teacher_layers is not None:
        start = "a new encoder from layers of the teacher"
    return [
        f"pretrain {start} on {recipe.corpus} with the vocabulary of {recipe.tokenizer}",
        f"{_length(recipe)} of {recipe.accumulate} x {recipe.batch_tokens:,} tokens, context {recipe.max_length}",
        f"masking {recipe.masking.rate:.0%} (validation always 15%), peak rate {recipe.train.lr:g}, {recipe.train.schedule} schedule",
        *([describe(recipe.distill)] if recipe.distill else []),
        f"write it to {out}",
    ]


def full_plan(
    recipe: PretrainRecipe,
    out: Path,
    *,
    gpus: Sequence[int] = (1, 2, 4, 8, 16),
    seconds: float = 10.0,
    vocab_size: int | None = None,
) -> list[str]:
    """The run with its costs, from a probe of so many seconds (0: no probe); leaves nothing behind."""
    feasible, notes = with_stand_ins(recipe)
    vocabulary, about_vocabulary = _vocabulary(recipe, vocab_size)
    corpus = corpus_size(recipe, out)
    skeleton = skeleton_of(feasible, vocabulary)
    if seconds and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        seconds = 0.0
        notes.append("no probe under torchrun: plan with one process, and read the time of several from the table")
    lengths = corpus.piece_lengths if corpus else ()
    found = probe(feasible, vocabulary, seconds=seconds, lengths=lengths) if seconds else None
    costs = Costs(feasible, skeleton, corpus, found)
    lines = [
        *plan(recipe, out),
        *_lines("encoder", [_shape(skeleton), about_vocabulary]),
        *_lines("parameters", [_parameters(skeleton)]),
        *_lines("corpus", [_corpus(recipe, corpus)]),
        *_lines("tokens", costs.tokens_lines()),
        *_lines("work", costs.work_lines()),
        *_lines("memory", costs.memory_lines(gpus)),
    ]
    if found:
        lines += [*_lines("speed", costs.speed_lines(found)), *_lines("time", costs.time_lines(found, gpus))]
    else:
        lines += _lines("time", ["not estimated without the probe"])
    return [*lines, *(f"note: {note}" for note in notes)]


def _vocabulary(recipe: PretrainRecipe, size: int | None) -> tuple[Vocabulary, str]:
    """The tokenizer's, else that of the model the run starts or learns from, else one with RoBERTa's special tokens."""
    models = (recipe.start_from, recipe.distill.teacher if recipe.distill else None)
    if size is None and recipe.tokenizer.exists():
        vocabulary = load_vocabulary(recipe.tokenizer)
        return vocabulary, f"vocabulary of {vocabulary.size:,} entries"
    model = next((folder for folder in models if folder and (folder / "tokenizer.json").is_file()), None)
    if size is None and model is not None:
        vocabulary = load_vocabulary(model)
        return vocabulary, f"vocabulary of {vocabulary.size:,} entries, that of {model}"
    kept = load_config(recipe.start_from).vocab_size if recipe.start_from and recipe.start_from.exists() else None
    entries = size or kept or VOCABULARY
    assumed = Vocabulary(
        size=entries, pad_id=1, mask_id=entries - 1, special_ids=frozenset(range(5)), prefix=(0,), suffix=(2,)
    )
    why = f"assumed, since the tokenizer {recipe.tokenizer} is not there"
    if size or kept:
        why = "as asked for" if size else "those of the checkpoint"
    return assumed, f"vocabulary of {entries:,} entries, {why}"


def _shape(skeleton: Skeleton) -> str:
    config = skeleton.config
    inner = getattr(config, "intermediate_size", None) or config.hidden_dim
    layers = f"{config.num_hidden_layers} layer{'s' if config.num_hidden_layers > 1 else ''}"
    return (
        f"{config.model_type}, {layers} of width {config.hidden_size}, "
        f"{config.num_attention_heads} heads, inner width {inner:,}"
    )


def _parameters(skeleton: Skeleton) -> str:
    return f"{skeleton.parameters:,}, of them {skeleton.parameters - skeleton.embeddings:,} not in embeddings"


def _corpus(recipe: PretrainRecipe, corpus: CorpusSize | None) -> str:
    if corpus is None:
        missing = recipe.corpus if not recipe.corpus.exists() else recipe.tokenizer
        return f"{missing} is not there (yet): planned without it"
    how = f"estimated from {corpus.sampled:,} documents" if corpus.sampled else "counted"
    return f"{corpus.epoch_tokens:,} tokens an epoch in {corpus.documents:,} documents ({how}), validation left out"


def _length(recipe: PretrainRecipe) -> str:
    if recipe.train.budget:
        return f"updates until {recipe.train.budget} are spent, each"
    return f"{recipe.train.steps:,} updates" if recipe.train.steps else "one epoch in updates"


def _lines(name: str, lines: Sequence[str]) -> list[str]:
    return [f"{name if not number else '':<{_MARGIN}}{line}" for number, line in enumerate(lines)]
