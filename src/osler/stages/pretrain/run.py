"""Pretrain an encoder with masked language modelling and write it as a Hugging Face folder."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import nn

from osler.artifacts.corpus import Corpus
from osler.artifacts.token_shards import TokenisedDocuments
from osler.artifacts.tokenizer import Tokenizer
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.console import progress
from osler.core.errors import InputError
from osler.core.files import fingerprint
from osler.nn.masking import Masker, Masking, MaskingVocabulary
from osler.stages.pretrain.config import PretrainRecipe, StepBatches
from osler.stages.pretrain.data import PieceStream, PretrainSource, source_weights, validation_batches
from osler.stages.pretrain.model import checked_digest, checked_start, load_vocabulary, make_model
from osler.stages.pretrain.objective import make_objective, training_flops
from osler.stages.pretrain.progress import PlateauWatch, measured_peak, shown_on, unigram_entropy
from osler.stages.pretrain.report import FinishedPretraining, write_reports
from osler.stages.pretrain.tokenise import tokenise
from osler.train.loop import StepReport, train
from osler.train.precision import Autocast, choose_device
from osler.train.source import Batch, move
from osler.train.stats import BestOf


def run(recipe: PretrainRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the encoder artifact."""
    corpus = Corpus.open(recipe.corpus)
    tokenizer_json = recipe.tokenizer / "tokenizer.json"
    vocabulary = load_vocabulary(recipe.tokenizer)
    parents: dict[str, str | Artifact] = {"corpus": corpus, "tokenizer": fingerprint([tokenizer_json])}
    weights = source_weights(corpus, recipe.source_weights)
    if recipe.start_from:
        parents["start_from"] = checked_start(recipe, recipe.start_from, vocabulary)
    if recipe.distill:
        parents["teacher"] = checked_digest(recipe, recipe.distill)
    # What this machine cannot do is said now, not when the corpus has been tokenised; a GPU is not touched before that.
    device = choose_device(recipe.train.device)
    if device.type == "cpu":
        Autocast(recipe.train, device)

    def build(work: Workspace) -> None:
        if work.training_is_finished():
            return
        shards = tokenise(
            corpus,
            tokenizer_json,
            recipe.tokens or out.with_name(f"{out.name}.tokens"),
            recipe.validation_share,
            workers=recipe.workers,
            replace=force,
        )
        _Pretraining(recipe, vocabulary, corpus, shards, weights).run(work)

    return produce(out, kind="encoder", recipe=recipe, parents=parents, build=build, force=force, together=True)


class _Pretraining:
    def __init__(
        self,
        recipe: PretrainRecipe,
        vocabulary: MaskingVocabulary,
        corpus: Corpus,
        shards: Artifact,
        weights: Mapping[str, float],
    ) -> None:
        self.recipe = recipe
        self.vocabulary = vocabulary
        self.corpus = corpus
        self.shards = shards
        self.streams = {
            split: PieceStream(
                TokenisedDocuments.open(shards.path, split),
                recipe.max_length,
                vocabulary.prefix,
                vocabulary.suffix,
                recipe.train.seed if split == "train" else None,
                weights if split == "train" else None,
            )
            for split in ("train", "validation")
        }
        self.masker = Masker(vocabulary, recipe.masking)
        self.validation_masker = Masker(vocabulary, Masking())

    def run(self, work: Workspace) -> None:
        recipe = self.recipe
        model = make_model(recipe, self.vocabulary)
        source = PretrainSource(
            self.streams["train"],
            self.masker,
            seed=recipe.train.seed,
            batch_tokens=recipe.batch_tokens,
            accumulate=recipe.accumulate,
            steps=recipe.train.steps or self._epoch_steps(),
            max_length=recipe.max_length,
            ramp=recipe.ramp,
        )
        objective = make_objective(recipe, model, self.vocabulary)
        # Our own presets have no idle weights; of a checkpoint from elsewhere, or a teacher's layers, that is not known.
        borrowed = recipe.start_from or (recipe.distill and recipe.distill.teacher_layers)
        objective.uses_every_parameter = not borrowed
        flops = training_flops(recipe, objective)
        peak = measured_peak(recipe.train, work.logs) if work.main else None
        self._check_validation()
        with progress("pretrain", len(source), training=True) as bar:
            show, watch = shown_on(bar, peak), self._plateau_watch()

            def on_step(report: StepReport) -> None:
                show(report)
                if watch and report.step % recipe.train.log_every == 0:
                    watch.see(report.step, report.loss)

            result = train(
                objective,
                source,
                recipe.train,
                folder=work.path,
                evaluate=self._validate,
                best=BestOf("validation_loss", "min"),
                flops_per_token=flops,
                on_step=on_step,
            )
        if not work.main:
            return
        model.save(work.path)
        Tokenizer.open(recipe.tokenizer).copy_to(work.path, model.max_length)
        loss = float(result.best_value if result.best_value is not None else math.nan)
        work.counts.update(
            parameters=sum(p.numel() for p in model.parameters()),
            steps=result.step,
            best_step=result.best_step,
            tokens_seen=source.tokens_after(result.step),
            validation_loss=round(loss, 6),
            perplexity=round(math.exp(loss), 4),
        )
        write_reports(
            work.path,
            FinishedPretraining(
                recipe,
                model.config,
                self.vocabulary.size,
                self.corpus,
                self.shards.manifest.counts,
                work.counts,
                result.history,
                flops,
                self.streams["train"].epoch_tokens,
            ),
        )
        work.finish_training()

    def _plateau_watch(self) -> PlateauWatch | None:
        if self.recipe.distill:
            return None  # its loss is a sum of several, and does not compare with the entropy
        return PlateauWatch(unigram_entropy(self.streams["train"].documents.shards, self.vocabulary.size))

    def _epoch_steps(self) -> int:
        updates = StepBatches(self.recipe.accumulate, self.recipe.ramp)
        return max(1, updates.whole_within(self.streams["train"].epoch_tokens // self.recipe.batch_tokens))

    def _validation(self) -> Iterator[Batch]:
        return validation_batches(
            self.streams["validation"],
            self.validation_masker,
            batch_tokens=self.recipe.batch_tokens,
            limit=self.recipe.validation_tokens,
            max_length=self.recipe.max_length,
        )

    def _check_validation(self) -> None:
        """Refuse text of which nothing can be masked: it would be a perfect score."""
        if not any(batch.weight for batch in self._validation()):
            raise InputError(
                "the validation documents hold nothing to mask: the tokenizer knows no part of their text",
                where=self.corpus.path,
                fix="Use a tokenizer that was learned from such text, or more documents (a larger validation_share)",
            )

    def _validate(self, module: nn.Module, step: int) -> Mapping[str, float]:
        device = next(module.parameters()).device
        loss = weight = 0.0
        with torch.inference_mode():
            for batch in self._validation():
                loss += float(module(move(batch.payload, device)).loss_sum)
                weight += batch.weight
        mean = loss / weight
        return {"validation_loss": mean, "perplexity": math.exp(min(mean, 50.0))}
