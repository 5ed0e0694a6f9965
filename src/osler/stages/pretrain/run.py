"""Pretrain an encoder with masked language modelling and write it as a Hugging Face folder."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from osler.artifacts.corpus import Corpus
from osler.artifacts.encoder import EncoderWriter
from osler.artifacts.token_shards import TokenShards
from osler.artifacts.tokenizer import Tokenizer
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.console import console, progress
from osler.core.errors import InputError
from osler.nn.masking import Masker, Masking, MaskingVocabulary
from osler.stages.pretrain.config import PretrainRecipe
from osler.stages.pretrain.data import ChunkStream, PretrainSource, source_weights, validation_batches
from osler.stages.pretrain.model import (
    Training,
    check_language_model,
    check_memory,
    check_start,
    check_teacher,
    check_validation,
    load_vocabulary,
    make_model,
    trainings,
)
from osler.stages.pretrain.objective import make_objective, training_flops
from osler.stages.pretrain.pairs import PairFrame, PairStream
from osler.stages.pretrain.progress import PlateauWatch, measure_peak, shown_on, unigram_entropy
from osler.stages.pretrain.report import FinishedPretraining, write_reports
from osler.stages.pretrain.tokenise import tokenise, tokens_folder
from osler.train.loop import StepReport, train
from osler.train.precision import Autocast, choose_device
from osler.train.source import Batch, move
from osler.train.stats import BestOf


@dataclass(frozen=True)
class Inputs:
    """The inputs of a run, opened and checked."""

    corpus: Corpus
    tokenizer: Tokenizer
    vocabulary: MaskingVocabulary
    weights: Mapping[str, float]
    parents: Mapping[str, str | Artifact]
    trained_on: Sequence[Training]
    """All training data behind the encoder: this corpus, and that of its checkpoint and teacher."""
    notes: Sequence[str]
    """Notes about what could not be checked."""


def open_inputs(recipe: PretrainRecipe) -> Inputs:
    """Open and check the inputs of a run or a dry run. Raises on anything that would fail later."""
    corpus = Corpus.open(recipe.corpus)
    if not corpus.documents:
        raise InputError("the corpus has no documents", where=corpus.path, fix="Build it from files that have text")
    # Check models first: a student's tokenizer is usually in its teacher's folder.
    models = {"checkpoint": recipe.start_from, "teacher": recipe.distill.teacher if recipe.distill else None}
    before = {role: folder for role, folder in models.items() if folder}
    for folder in before.values():
        check_language_model(folder)
    tokenizer, vocabulary = Tokenizer.open(recipe.tokenizer), load_vocabulary(recipe.tokenizer)
    parents: dict[str, str | Artifact] = {"corpus": corpus, "tokenizer": tokenizer.digest}
    weights = source_weights(corpus, recipe.source_weights)
    if recipe.uses_density and not corpus.has_density:
        raise InputError(
            "the corpus does not state the term density of its documents",
            where=corpus.path,
            fix="Build it with density_terms, or leave out density_weight and order",
        )
    if recipe.start_from:
        parents["start_from"] = check_start(recipe, recipe.start_from, vocabulary)
    if recipe.distill:
        parents["teacher"] = check_teacher(recipe, recipe.distill)
    own = Training.of(recipe, corpus)
    checked = before.items() if recipe.check_validation else ()
    notes = [check_validation(role, folder, own) for role, folder in checked]
    trained_on = dict.fromkeys([own, *(training for folder in before.values() for training in trainings(folder))])
    device = choose_device(recipe.train.device)
    if device.type == "cpu":  # a GPU is not touched before training
        Autocast(recipe.train, device)
        check_memory(recipe, vocabulary)
    return Inputs(corpus, tokenizer, vocabulary, weights, parents, list(trained_on), [note for note in notes if note])


def run(recipe: PretrainRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Pretrain an encoder: check everything, tokenise the corpus, train, and write the folder."""
    inputs = open_inputs(recipe)

    def build(work: Workspace) -> None:
        if work.training_is_finished():
            return
        for note in inputs.notes if work.main else ():
            console().print(f"note: {note}", markup=False, style="yellow")
        folder, share = tokens_folder(recipe, out), recipe.validation_share
        shards = tokenise(
            inputs.corpus,
            inputs.tokenizer,
            folder,
            share,
            sentences=recipe.uses_pairs,
            workers=recipe.workers,
            replace=force,
        )
        _pretrain(recipe, inputs, shards, work)

    return produce(out, kind="encoder", recipe=recipe, parents=inputs.parents, build=build, force=force, together=True)


def _pretrain(recipe: PretrainRecipe, inputs: Inputs, shards: TokenShards, work: Workspace) -> None:
    corpus, vocabulary = inputs.corpus, inputs.vocabulary
    stream, held_out = _streams(recipe, inputs, shards)
    model = make_model(recipe, vocabulary)
    source = PretrainSource(
        stream,
        Masker(vocabulary, recipe.masking),
        recipe.step_batches,
        steps=recipe.train.steps or recipe.step_batches.steps_for(stream.epoch_tokens),
        max_length=recipe.max_length,
        seed=recipe.train.seed,
    )
    objective = make_objective(recipe, model, vocabulary)
    # The presets have no unused weights; a checkpoint from elsewhere or a teacher's layers may have some.
    objective.uses_every_parameter = not (
        recipe.start_from or (recipe.distill and recipe.distill.teacher_layers is not None)
    )
    flops = training_flops(recipe, objective)
    writer = EncoderWriter(work.path)
    peak = measure_peak(recipe.train) if work.main else None
    if peak:
        writer.write_peak(peak)

    # Always 15 % of the sub-words, whatever the recipe masks in training.
    validation = partial(
        validation_batches,
        held_out,
        Masker(vocabulary, Masking()),
        batch_tokens=recipe.batch_tokens,
        limit=recipe.validation_tokens,
        max_length=recipe.max_length,
    )
    # Without a masked token the validation loss would be a perfect 0.
    if not any(batch.weight for batch in validation()):
        raise InputError(
            "the validation documents have no token to mask: the tokenizer knows no part of their text",
            where=corpus.path,
            fix="Use a tokenizer trained on such text, or hold out more documents (a larger validation_share)",
        )
    # A sum of several losses is not comparable with the entropy.
    watch = (
        None
        if recipe.distill or recipe.uses_pairs
        else PlateauWatch(unigram_entropy(stream.documents.shards, vocabulary.size))
    )

    with progress("pretrain", len(source), training=True) as bar:
        show = shown_on(bar, peak.flops_per_second if peak else None)

        def on_step(report: StepReport) -> None:
            show(report)
            if watch and report.step % recipe.train.log_every == 0:
                watch.see(report.step, report.loss)

        result = train(
            objective,
            source,
            recipe.train,
            folder=work.path,
            evaluate=lambda module, step: _validate(module, validation()),
            best=BestOf("validation_loss", "min"),
            flops_per_token=flops,
            on_step=on_step,
        )
    if not work.main:
        return
    model.save(work.path)
    inputs.tokenizer.copy_to(work.path, model.max_length)
    loss = float(result.best_value if result.best_value is not None else math.nan)
    work.counts.update(
        parameters=sum(p.numel() for p in model.parameters()),
        steps=result.step,
        best_step=result.best_step,
        tokens_seen=recipe.step_batches.tokens(result.step),
        validation_loss=round(loss, 6),
        perplexity=round(math.exp(loss), 4),
        **_pair_scores(result.history, result.best_step),
        trained_on=[training._asdict() for training in inputs.trained_on],
    )
    finished = FinishedPretraining(
        recipe=recipe,
        config=model.config,
        vocabulary=vocabulary.size,
        corpus=corpus,
        tokenised=shards.counts,
        counts=work.counts,
        history=result.history,
        flops_per_token=flops,
        epoch_tokens=stream.epoch_tokens,
    )
    write_reports(writer, finished)
    work.finish_training()


def _pair_scores(history: Sequence[Mapping[str, Any]], step: int | None) -> dict[str, float]:
    """Return the next-sentence scores of the validation at a step; empty if there was none."""
    found = next((r for r in history if r["kind"] == "eval" and r["step"] == step), {})
    return {name: round(found[name], 6) for name in ("nsp_loss", "nsp_accuracy") if name in found}


def _streams(recipe: PretrainRecipe, inputs: Inputs, shards: TokenShards) -> tuple[ChunkStream, ChunkStream]:
    """Return the training and the validation stream."""
    train, held_out = shards.split("train"), shards.split("validation")
    if recipe.uses_pairs:
        frame = PairFrame.of(inputs.tokenizer)
        return (
            PairStream(train, recipe.max_length, frame, recipe.train.seed, inputs.weights),
            PairStream(held_out, recipe.max_length, frame, None),
        )
    single = (recipe.max_length, inputs.vocabulary.prefix, inputs.vocabulary.suffix)
    end = recipe.step_batches.tokens(recipe.train.steps) if recipe.train.steps else sys.maxsize
    by_density = (recipe.density_weight, end if recipe.order == "density" else None)
    return (
        ChunkStream(train, *single, recipe.train.seed, inputs.weights, *by_density),
        ChunkStream(held_out, *single, None),
    )


def _validate(module: nn.Module, batches: Iterable[Batch]) -> dict[str, float]:
    device = next(module.parameters()).device
    loss = weight = 0.0
    sums: Counter[str] = Counter()
    with torch.inference_mode():
        for batch in batches:
            output = module(move(batch.payload, device))
            loss += float(output.loss_sum)
            weight += batch.weight
            sums.update({name: float(value) for name, value in output.logs.items()})
    mean = loss / weight
    found = {"validation_loss": mean, "perplexity": math.exp(min(mean, 50.0))}
    if pairs := sums["pairs"]:
        found |= {"nsp_loss": sums["nsp"] / pairs, "nsp_accuracy": sums["correct"] / pairs}
    return found
